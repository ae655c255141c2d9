"""The sources of a scan: an ephemeral consumer, or direct gets.

`Scan` uses both by the same calls. The sources know nothing of limits of record batches, reports or retries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.bulk.connection import Connection
from jetspark.engine.ranges import RangeProgress
from jetspark.jetstream.names import CONSUMER_PREFIX
from jetspark.wire.vector import FrameTable

__all__ = ["DecodedMessages", "RangeSource", "ReadLimits", "ReadMethod", "ReadTarget"]


class ReadMethod(Enum):
    """How a range is read."""

    AUTO = "auto"
    """A consumer, unless it would be refused or would change which messages the stream keeps."""
    CONSUMER = "consumer"
    """An ephemeral pull consumer: the fastest way on the server."""
    DIRECT = "direct"
    """Batched direct get (ADR-31): leaves nothing on the server; the stream must set `allow_direct`."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of a scan: rows and bytes of a batch, bytes in flight, seconds for a request and for retries."""

    max_batch_rows: int
    max_batch_bytes: int
    max_bytes_in_flight: int
    timeout: float
    retry_timeout: float


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """The stream and the filters to read, with the connection, the API prefix, and how the names of consumers begin."""

    connection: Connection
    stream: str
    subjects: Sequence[str]
    prefix: str
    limits: ReadLimits
    consumer_prefix: str = CONSUMER_PREFIX


class DecodedMessages(Protocol):
    """Messages in sequence order."""

    @property
    def table(self) -> FrameTable:
        """The messages in the receive buffer."""

    @property
    def sequence(self) -> NDArray[np.int64]:
        """Sequences of the messages, int64 (n,)."""

    def to_record_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of the schema."""


class RangeSource(Protocol):
    """A source that reads a range from `progress.next_sequence` on."""

    @property
    def name(self) -> str:
        """Name of the consumer on the server; empty if there is none."""

    def open(self, progress: RangeProgress) -> None:
        """Create what is needed on the server and the connection."""

    def count(self, end: int) -> int:
        """Count the messages before `end` that the server has now, after filters."""

    def read_messages(self, progress: RangeProgress) -> Iterator[DecodedMessages]:
        """Yield the messages of the range until it is read; raise if it cannot continue."""

    def close(self) -> None:
        """Release everything without waiting for the server's answer."""
