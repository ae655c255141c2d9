"""One bucket of objects over a JetStream context: its subjects, and the descriptions of its objects."""

from __future__ import annotations

from jetspark.aio.jetstream._drivers.buckets import BucketCore
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import MessageNotFoundError, ObjectNotFoundError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.config import check_stream
from jetspark.jetstream.object_store.info import stored_info
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject

__all__ = ["ObjectStoreCore"]


class ObjectStoreCore(BucketCore):
    """The core of an object store's handle.

    Attributes
    ----------
    prefix
        The part that all subjects of the bucket begin with; a mirror has the subjects of its origin.
    """

    def __init__(self, js: JetStreamCore, info: StreamInfo) -> None:
        BucketCore.__init__(self, js, check_stream(info.config), info)
        self.prefix = OBJECTS.subjects_of(OBJECTS.origin_of(self.bucket, info.config.mirror))

    def meta_subject(self, name: str) -> str:
        """Return the subject of an object's description. Raises InvalidObjectNameError."""
        return meta_subject(self.prefix, name)

    def chunk_subject(self, nuid: str) -> str:
        """Return the subject of the chunks of an object."""
        return chunk_subject(self.prefix, nuid)

    async def find_info(self, name: str, timeout: float | None, *, consistent: bool = False) -> ObjectInfo | None:  # noqa: ASYNC109
        """Return the description of an object, also of a deleted one; None if there is none.

        Parameters
        ----------
        consistent
            Ask the leader. Without it, any replica may answer, and the last changes may be missing.

        Raises
        ------
        BadObjectError
            It cannot be read.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        try:
            message = await self.get_message(self.meta_subject(name), consistent=consistent, timeout=timeout)
        except MessageNotFoundError:
            return None
        return stored_info(self.bucket, message)

    async def get_info(self, name: str, timeout: float | None, *, show_deleted: bool = False) -> ObjectInfo:  # noqa: ASYNC109
        """Return the description of an object; see `ObjectStore.get_info`."""
        info = await self.find_info(name, timeout)
        if info is None or (info.deleted and not show_deleted):
            raise self.not_found(name, info)
        return info

    def not_found(self, name: str, info: ObjectInfo | None = None) -> ObjectNotFoundError:
        """Return the error for an object that does not exist, or is deleted."""
        what = f"there is no object {name!r}" if info is None else f"object {name!r} is deleted"
        return ObjectNotFoundError(f"{self.bucket}: {what}", bucket=self.bucket, name=name)
