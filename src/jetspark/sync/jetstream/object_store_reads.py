"""The reads of an object store.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.object_store_reads`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import object_store_reads as aio
from jetspark.jetstream.object_store import ObjectInfo, ObjectStoreStatus
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStoreReads"]


@checks_arguments()
class ObjectStoreReads(LoopProxy):
    """The calls of an object store that change nothing."""

    _inner: aio.ObjectStoreReads

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._inner.bucket

    def status(self, *, timeout: float | None = None) -> ObjectStoreStatus:
        """Ask the server for configuration and state of the bucket.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more (10059).
        """
        return self._call(self._inner.status(timeout=timeout))

    def get_info(self, name: str, *, show_deleted: bool = False, timeout: float | None = None) -> ObjectInfo:
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
        return self._call(self._inner.get_info(name, show_deleted=show_deleted, timeout=timeout))
