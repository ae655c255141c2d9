"""The handles of watches of a bucket; as in the asyncio front, but blocking.

Written by hand: entries are taken from the event loop in lists, and `next` has a timeout.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from jetspark.aio.jetstream import bucket_watch as aio
from jetspark.jetstream.errors import ConnectionClosedError
from jetspark.jetstream.key_value import KeyValueEntry
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.sync._interfaces import core_of
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["BucketWatch", "KeyWatch", "ObjectWatch"]

T = TypeVar("T")


@checks_arguments()
class BucketWatch(LoopProxy, Generic[T]):
    """A running watch. An iterator, and a context manager that stops at its end."""

    _inner: aio.BucketWatch[T]

    @property
    def closed(self) -> bool:
        """Whether it has ended and its entries were taken."""
        return self._inner.closed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T | None:
        """Wait for the next entry, or None at the end of the initial data.

        Raises
        ------
        BucketNotFoundError
            The bucket was deleted.
        BucketReplacedError
            The bucket was deleted and created again.
        ConnectionClosedError
            The connection was closed.
        """
        core = core_of(self._inner)
        while True:
            try:
                return core.entries.popleft()
            except IndexError:  # also if another thread took it
                self._call(core.fill())
            if core.closed:
                raise StopIteration

    def next(self, timeout: float | None = None) -> T | None:
        """Return the next entry, or None at the end of the initial data.

        Parameters
        ----------
        timeout
            Seconds; None waits without a limit.

        Raises
        ------
        NoMessageError
            None came in time.
        SubscriptionClosedError
            The watch was stopped.
        Error
            As for the iteration.
        """
        return self._call(self._inner.next(timeout))

    def initial(self) -> list[T]:
        """Return the entries up to the end of the initial data. Errors are those of the iteration."""
        return self._call(self._inner.initial())

    def stop(self) -> None:
        """End now: the iteration ends, and the server deletes the consumer. A second call does nothing."""
        with suppress(ConnectionClosedError):  # the close has ended it
            self._call(self._inner.stop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@checks_arguments()
class KeyWatch(BucketWatch[KeyValueEntry]):
    """A running watch, created by `KeyValue.watch`. An iterator, and a context manager that stops at its end.

        with bucket.watch("users.*") as watch:
            for entry in watch:
                if entry is None:
                    ...  # this was the initial data; changes follow

    It yields the initial entries, then None exactly once, then each change. It never ends by itself. It continues
    through lost connections, restarts and leader changes: no entry that the bucket holds is lost, and none comes twice.
    A slow reader delays only its own watch. Threads may share it; each entry goes to one of them.
    """


@checks_arguments()
class ObjectWatch(BucketWatch[ObjectInfo]):
    """A running watch, created by `ObjectStore.watch`. An iterator, and a context manager that stops at its end.

        with store.watch() as watch:
            for info in watch:
                if info is None:
                    ...  # this was the initial data; changes follow

    It yields the description of each object, then None exactly once, then each change; it reads no content. The rest is
    as for a `KeyWatch`.
    """
