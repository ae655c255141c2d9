"""The state of a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from jetspark.jetstream.buckets import BucketStatus
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.key_value.config import check_stream

__all__ = ["KeyValueStatus", "key_value_status"]


@dataclass(frozen=True, slots=True)
class KeyValueStatus(BucketStatus):
    """The state of a bucket of keys and values, as the server reported it."""

    @property
    def values(self) -> int:
        """Number of all entries: every revision that is kept, and the markers."""
        return self.stream_info.state.messages

    @property
    def history(self) -> int:
        """Number of revisions that are kept of each key."""
        return self.config.max_msgs_per_subject or 1

    @property
    def limit_marker_ttl(self) -> timedelta:
        """How long the marker of an expired value stays; zero if there are none."""
        return self.config.subject_delete_marker_ttl or timedelta(0)

    @property
    def bytes(self) -> int:
        """Size of all entries, with headers and the store's own overhead."""
        return self.stream_info.state.bytes


def key_value_status(info: StreamInfo) -> KeyValueStatus:
    """Return the state of a bucket from that of its stream. Raises BadBucketError if it is no bucket."""
    return KeyValueStatus(check_stream(info.config), info)
