"""The state of an object store."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.buckets import BucketStatus
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.object_store.config import check_stream

__all__ = ["ObjectStoreStatus", "object_store_status"]


@dataclass(frozen=True, slots=True)
class ObjectStoreStatus(BucketStatus):
    """The state of a bucket of objects, as the server reported it."""

    @property
    def description(self) -> str:
        """Free text."""
        return self.config.description or ""

    @property
    def replicas(self) -> int:
        """Number of replicas in the cluster."""
        return self.config.num_replicas or 1

    @property
    def sealed(self) -> bool:
        """Whether the bucket takes no changes any more."""
        return bool(self.config.sealed)

    @property
    def size(self) -> int:
        """Bytes of all objects, with headers and the store's own overhead."""
        return self.stream_info.state.bytes


def object_store_status(info: StreamInfo) -> ObjectStoreStatus:
    """Return the state of a bucket from that of its stream. Raises BadBucketError if it is no bucket of objects."""
    return ObjectStoreStatus(check_stream(info.config), info)
