"""The state of a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from jetspark.jetstream.config import StorageType, StoreCompression, StreamConfig
from jetspark.jetstream.info import StreamInfo

__all__ = ["KeyValueStatus"]

_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class KeyValueStatus:
    """The state of a bucket, as the server reported it."""

    bucket: str
    """Name of the bucket."""
    stream_info: StreamInfo
    """Configuration and state of its stream."""

    @property
    def config(self) -> StreamConfig:
        """Configuration of its stream."""
        return self.stream_info.config

    @property
    def values(self) -> int:
        """Number of all entries: every revision that is kept, and the markers."""
        return self.stream_info.state.messages

    @property
    def history(self) -> int:
        """Number of revisions that are kept of each key."""
        return self.config.max_msgs_per_subject or 1

    @property
    def ttl(self) -> timedelta:
        """Time after which a revision expires, zero for never."""
        return self.config.max_age or _NO_TIME

    @property
    def limit_marker_ttl(self) -> timedelta:
        """How long the marker of an expired value stays; zero if there are none."""
        return self.config.subject_delete_marker_ttl or _NO_TIME

    @property
    def bytes(self) -> int:
        """Size of all entries, with headers and the store's own overhead."""
        return self.stream_info.state.bytes

    @property
    def is_compressed(self) -> bool:
        """Whether the store is compressed."""
        return self.config.compression not in {None, StoreCompression.NONE}

    @property
    def backing_store(self) -> StorageType:
        """Where the bucket is stored."""
        return self.config.storage or StorageType.FILE

    @property
    def metadata(self) -> dict[str, str]:
        """Free texts by key; those of the server begin with `_nats.`."""
        return self.config.metadata or {}
