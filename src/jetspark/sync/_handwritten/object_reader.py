"""The handle of a read of an object; as in the asyncio front, but blocking.

Written by hand: chunks are taken from the event loop in lists.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from jetspark.aio.jetstream import object_reader as aio
from jetspark.jetstream.errors import ConnectionClosedError
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.sync._interfaces import core_of
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectReader"]


@checks_arguments()
class ObjectReader(LoopProxy):
    """The content of an object, created by `ObjectStore.get`. An iterator of chunks, and a context manager.

        with store.get("video.mp4") as reader:
            for chunk in reader:
                ...

    Chunks come as they are read, and memory is bounded: a slow reader delays only itself. At the end the digest is
    compared, so what came is to be trusted only if the iteration, or the last `read`, has ended without an error.
    Threads may share it; each chunk goes to one of them.
    """

    _inner: aio.ObjectReader

    @property
    def info(self) -> ObjectInfo:
        """Description of the object; of a link, that of its target."""
        return self._inner.info

    @property
    def closed(self) -> bool:
        """Whether all of it was read, or `close` was called."""
        return self._inner.closed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        """Wait for the next chunk.

        Raises
        ------
        DigestMismatchError
            At the end: the content is not what was put.
        ObjectIncompleteError
            Chunks are missing.
        ObjectChangedError
            The object was replaced or deleted meanwhile.
        RequestTimeoutError
            No chunk came in time.
        SubscriptionClosedError
            It was closed before its end.
        BucketNotFoundError, BucketReplacedError, ConnectionClosedError
            The bucket was deleted, or the connection was closed.
        """
        core = core_of(self._inner)
        while True:
            try:
                return bytes(core.chunks.popleft())
            except IndexError:  # also if another thread took it
                self._call(core.fill())
            if core.closed:
                raise StopIteration

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes: `count` of them, fewer only at the end. A negative number reads all that is left.

        The call that returns the last byte compares the digest. Errors are those of the iteration.
        """
        return self._call(self._inner.read(count))

    def close(self) -> None:
        """End now. A second call does nothing."""
        with suppress(ConnectionClosedError):  # the close has ended it
            self._call(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
