"""A message as it lies in a stream: what a get returns, whichever way it took."""

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
    """Stream that holds it."""
    subject: str
    """Subject."""
    sequence: int
    """Sequence in the stream."""
    timestamp_ns: int
    """When it was stored, nanoseconds since 1970 UTC."""
    headers: Headers
    """Headers that it was published with."""
    payload: bytes
    """Content."""
    num_pending: int | None = None
    """In a batch: messages that match and follow. None elsewhere, and when the server does not do batches."""
    last_sequence: int | None = None
    """In a batch: sequence of the message before, 0 for the first."""

    @property
    def timestamp(self) -> datetime:
        """When it was stored, as a UTC `datetime`; it keeps the nanoseconds (`Timestamp`)."""
        return Timestamp.from_ns(self.timestamp_ns)
