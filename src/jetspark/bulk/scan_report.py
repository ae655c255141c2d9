"""Counts and facts of a scan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jetspark.bulk.range_source import ReadMethod

__all__ = ["ScanReport"]


@dataclass(slots=True)
class ScanReport:
    """Counts and facts of a scan.

    Attributes
    ----------
    stream, created
        Name of the stream, and when it was created.
    start_sequence, end_sequence
        First sequence of the range and the one after its last, limited to what the stream had at the beginning.
    stream_first_sequence, stream_last_sequence
        First and last sequence of the stream at the beginning.
    expected
        Messages of the range that the server counted at the beginning, after filters; None before that. With filters,
        or if the stream has gaps, it may be slightly too low while others publish.
    received
        Messages returned.
    bytes
        Bytes that these messages took on the wire.
    first_sequence, last_sequence
        Of the returned messages; None if there are none.
    read_method
        How the range is read; `AUTO` until that is decided.
    restarts
        How often reading continued after an interruption.
    complete
        Whether the whole range was read.
    bad_records
        Messages whose payload could not be decoded, with the parameter `decode`.
    """

    stream: str
    created: datetime | None = None
    start_sequence: int = 0
    end_sequence: int = 0
    stream_first_sequence: int = 0
    stream_last_sequence: int = 0
    expected: int | None = None
    received: int = 0
    bytes: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    read_method: ReadMethod = ReadMethod.AUTO
    restarts: int = 0
    complete: bool = False
    bad_records: int = 0

    @property
    def missing(self) -> int:
        """Messages that existed at the beginning and were gone before they were read: purged, deleted or expired."""
        return max((self.expected or 0) - self.received, 0) if self.complete else 0
