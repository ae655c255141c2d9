"""The handle of a read of an object."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.object_read import ObjectReadCore
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectReader"]


@checks_arguments()
class ObjectReader(HasCore[ObjectReadCore]):
    """The content of an object, created by `ObjectStore.get`. An async iterator of chunks, and a context manager.

        async with await store.get("video.mp4") as reader:
            async for chunk in reader:
                ...

    Chunks come as they are read, and memory is bounded: a slow reader delays only itself. At the end the digest is
    compared, so what came is to be trusted only if the iteration, or the last `read`, has ended without an error.
    """

    def __repr__(self) -> str:
        return f"<ObjectReader of {self.info.bucket}/{self.info.name}{', closed' if self.closed else ''}>"

    @property
    def info(self) -> ObjectInfo:
        """Description of the object; of a link, that of its target."""
        return self._core.info

    @property
    def closed(self) -> bool:
        """Whether all of it was read, or `close` was called."""
        return self._core.closed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
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
        core = self._core
        if not core.chunks:
            await core.fill()
            if not core.chunks:
                raise StopAsyncIteration
        return bytes(core.chunks.popleft())

    async def read(self, count: int = -1) -> bytes:
        """Return the next bytes: `count` of them, fewer only at the end. A negative number reads all that is left.

        The call that returns the last byte compares the digest. Errors are those of the iteration.
        """
        return await self._core.read(count)

    async def close(self) -> None:
        """End now. A second call does nothing."""
        await self._core.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
