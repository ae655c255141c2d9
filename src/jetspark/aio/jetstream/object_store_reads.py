"""The reads of an object store."""

from __future__ import annotations

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.jetstream.object_store import ObjectInfo, ObjectStoreStatus
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStoreReads"]


@checks_arguments()
class ObjectStoreReads(HasCore[ObjectStoreCore]):
    """The calls of an object store that change nothing."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._core.bucket

    async def status(self, *, timeout: float | None = None) -> ObjectStoreStatus:  # noqa: ASYNC109
        """Ask the server for configuration and state of the bucket.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more (10059).
        """
        return ObjectStoreStatus(self.bucket, await self._core.refresh(timeout))

    async def get_info(
        self,
        name: str,
        *,
        show_deleted: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ObjectInfo:
        """Return the description of an object: size, digest, headers and so on.

        Parameters
        ----------
        show_deleted
            Return that of a deleted object, too; its `deleted` is true.

        Raises
        ------
        ObjectNotFoundError
            There is no such object, or it is deleted.
        InvalidObjectNameError
            The name cannot be used. Nothing was sent.
        BadObjectError
            The stored description cannot be read.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        return await self._core.get_info(name, timeout, show_deleted=show_deleted)
