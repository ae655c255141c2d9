"""A stored message: the result of a get, by direct get or by the management API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jetspark.jetstream.times import Timestamp
from jetspark.wire.headers import Headers

__all__ = ["StoredMessage"]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a stream, read without a consumer."""

    stream: str
    """Stream that has it."""
    subject: str
    """Subject."""
    sequence: int
    """Sequence in the stream."""
    timestamp_ns: int
    """When it was stored, nanoseconds since 1970 UTC."""
    headers: Headers
    """Headers of the publish."""
    payload: bytes
    """Content."""
    num_pending: int | None = None
    """In a batch: number of matching messages that follow. Otherwise, and if the server has no batches, None."""
    last_sequence: int | None = None
    """In a batch: sequence of the message before, 0 for the first."""

    @property
    def timestamp(self) -> datetime:
        """When it was stored, as a UTC `Timestamp`: a `datetime` that keeps the nanoseconds."""
        return Timestamp.from_ns(self.timestamp_ns)
