"""What a scan reads a range from: an ephemeral consumer, or direct gets.

`Scan` drives either by the same few calls, and neither knows of record batches' limits, of reports or of trying again.
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
from jetspark.flow.ranges import RangeProgress
from jetspark.wire.vector import FrameTable

__all__ = ["RangeSource", "ReadBy", "Run", "ScanLimits", "Target"]


class ReadBy(Enum):
    """By what a range is read."""

    AUTO = "auto"
    """A consumer, except where one would be refused or would change what the stream keeps."""
    CONSUMER = "consumer"
    """An ephemeral pull consumer: the path on which the server is fastest."""
    DIRECT = "direct"
    """Batched direct get (ADR-31): leaves nothing on the server; the stream must set `allow_direct`."""


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Bounds of a scan: rows and bytes of a batch, bytes in flight, seconds for a request and for trying again."""

    rows: int
    bytes: int
    in_flight: int
    timeout: float
    retry_timeout: float


@dataclass(frozen=True, slots=True)
class Target:
    """What is read: the stream, filters, and by which connection and API."""

    connection: Connection
    stream: str
    subjects: Sequence[str]
    prefix: str
    limits: ScanLimits


class Run(Protocol):
    """Messages in the order of their sequences."""

    @property
    def table(self) -> FrameTable:
        """Where they lie in the receive buffer."""

    @property
    def sequence(self) -> NDArray[np.int64]:
        """Their sequences, int64 (n,)."""

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of the schema."""


class RangeSource(Protocol):
    """A way to read a range from `progress.next_sequence` on."""

    @property
    def name(self) -> str:
        """Name of the consumer on the server, empty when there is none."""

    def open(self, progress: RangeProgress) -> None:
        """Make what is needed on the server and the connection."""

    def count(self, end: int) -> int:
        """Messages before `end` that the server has now, filters applied."""

    def deliveries(self, progress: RangeProgress) -> Iterator[Run]:
        """What is in the range, until it is read; raises where it cannot go on."""

    def close(self) -> None:
        """Give everything back; nobody waits for the server's answer."""
