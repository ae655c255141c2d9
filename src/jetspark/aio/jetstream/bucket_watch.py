"""The handles of watches of a bucket."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Generic, Self, TypeVar

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.watch import WatchCore
from jetspark.jetstream.errors import NoMessageError, SubscriptionClosedError
from jetspark.jetstream.key_value import KeyValueEntry
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["BucketWatch", "KeyWatch", "ObjectWatch"]

T = TypeVar("T")


@checks_arguments()
class BucketWatch(HasCore[WatchCore[T]], Generic[T]):
    """A running watch. An async iterator, and a context manager that stops at its end."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of bucket {self._core.bucket!r}{', closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether it has ended and its entries were taken."""
        return self._core.closed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T | None:
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
        core = self._core
        if not core.entries:
            await core.fill()
            if not core.entries:
                raise StopAsyncIteration
        return core.entries.popleft()

    async def next(self, timeout: float | None = None) -> T | None:  # noqa: ASYNC109 (part of the call)
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
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except TimeoutError:
            raise NoMessageError(f"{self!r}: no entry within {timeout or 0:g} s") from None
        except StopAsyncIteration:
            raise SubscriptionClosedError(f"{self!r}: the watch was stopped") from None

    async def initial(self) -> list[T]:
        """Return the entries up to the end of the initial data. Errors are those of the iteration."""
        entries: list[T] = []
        async for entry in self:
            if entry is None:
                break
            entries.append(entry)
        return entries

    async def stop(self) -> None:
        """End now: the iteration ends, and the server deletes the consumer. A second call does nothing."""
        await self._core.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


@checks_arguments()
class KeyWatch(BucketWatch[KeyValueEntry]):
    """A running watch, created by `KeyValue.watch`. An async iterator, and a context manager that stops at its end.

        async with await bucket.watch("users.*") as watch:
            async for entry in watch:
                if entry is None:
                    ...  # this was the initial data; changes follow

    It yields the initial entries, then None exactly once, then each change. It never ends by itself. It continues
    through lost connections, restarts and leader changes: no entry that the bucket holds is lost, and none comes twice.
    A slow reader delays only its own watch.
    """


@checks_arguments()
class ObjectWatch(BucketWatch[ObjectInfo]):
    """A running watch, created by `ObjectStore.watch`. An async iterator, and a context manager that stops at its end.

        async with await store.watch() as watch:
            async for info in watch:
                if info is None:
                    ...  # this was the initial data; changes follow

    It yields the description of each object, then None exactly once, then each change; it reads no content. The rest is
    as for a `KeyWatch`.
    """
