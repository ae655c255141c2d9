"""Settings, report and errors of both ways to publish."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from jetspark.bulk.publish_acks import StreamAcks
from jetspark.jetstream import header_names as names
from jetspark.jetstream.control_headers import CONTROL_HEADER_PATTERN
from jetspark.jetstream.errors import Error, WrongStreamError
from jetspark.jetstream.names import check_publish_subject, check_stream_name
from jetspark.wire.vector.headers import remove_headers

__all__ = [
    "BulkPublishOptions",
    "ControlHeaderFilter",
    "ControlHeaders",
    "PublishRefusedError",
    "PublishReport",
    "RecordBatchInput",
    "RefusalFilter",
    "StoredRowsFinder",
    "record_batches",
]

RecordBatchInput: TypeAlias = pa.RecordBatch | pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch]
"""Record batches to publish, in any of these forms."""

ControlHeaders: TypeAlias = Literal["drop", "keep"]
"""Whether headers by which a message commands the server are left out or published."""

_log: Final = logging.getLogger(__name__)

StoredRowsFinder: TypeAlias = Callable[[pa.StringArray, pa.StringArray, float], pa.BooleanArray]
"""Returns which rows are stored, by their subjects and message ids (null for none), and the seconds since the first of
them was sent."""


RefusalFilter: TypeAlias = Callable[[Error], bool]
"""Returns whether a row that was refused with this error is collected."""


def record_batches(batches: RecordBatchInput) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of any of the accepted types."""
    if isinstance(batches, pa.RecordBatch):
        yield batches
    elif isinstance(batches, pa.Table):
        yield from batches.to_batches()
    else:
        yield from batches


class ControlHeaderFilter:
    """Leaves out headers that command the server, because rows of a scan may have them. `warn` names them once."""

    def __init__(self, action: ControlHeaders) -> None:
        self._keep = action == "keep"
        self._left_out: set[str] = set()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the record batch without these headers."""
        at = batch.schema.get_field_index("headers")  # -1 if it is there twice; that is an error later
        if self._keep or at < 0 or not pa.types.is_map(batch.schema.field(at).type):
            return batch
        headers, found = remove_headers(batch.column(at), CONTROL_HEADER_PATTERN)
        self._left_out.update(found)
        return batch.set_column(at, "headers", headers) if found else batch

    def warn(self) -> None:
        """Log a warning if headers were left out."""
        if self._left_out:
            _log.warning(
                "the rows have headers that command the server, and these were left out: %s; give "
                "control_headers='keep' to publish them, or drop them from the column headers",
                ", ".join(sorted(self._left_out)),
            )


@dataclass(frozen=True, slots=True)
class BulkPublishOptions:
    """Settings of a publish; see `jetspark.bulk.publish`."""

    subject: str | None = None
    max_pending: int | None = None
    max_bytes_in_flight: int = 8 << 20
    ack_timeout: float = 5.0
    expected_stream: str | None = None
    retry_timeout: float = 0.0
    find_stored: StoredRowsFinder | None = None
    is_collected: RefusalFilter | None = None
    """Which refused rows are collected: the others go on. None ends the publish at the first refusal."""
    has_stream: Callable[[str], bool] | None = None
    """Whether a stream takes a subject. Asked when nobody answers; the rows are collected if there is no stream."""

    def __post_init__(self) -> None:
        """Check names. Raises BadSubjectError or BadNameError."""
        if self.subject is not None:
            check_publish_subject(self.subject)
        if self.expected_stream is not None:
            check_stream_name(self.expected_stream)

    def collects(self, error: Error) -> bool:
        """Return whether a row that was refused with this error is collected."""
        return self.is_collected is not None and self.is_collected(error)

    def header_lines(self, rows: int) -> pa.Array | None:
        """Return header lines of the library for `rows` rows."""
        if self.expected_stream is None:
            return None
        return pa.repeat(pa.scalar(f"{names.EXPECTED_STREAM}: {self.expected_stream}\r\n"), rows)


@dataclass(slots=True)
class PublishReport:
    """The outcome of a publish.

    Attributes
    ----------
    count
        Rows acknowledged, including duplicates. Each row counts once, for the stream that answered first.
    bytes
        Bytes written to the socket.
    resent
        Rows that were sent again: after the loss of the connection, or because nobody answered for a moment.
    streams
        Counts, first and last sequence, by stream name.
    further_answers
        Answers to rows that were answered before. They come if more than one stream takes the subject.
    unmatched_answers
        Answers on reply subjects that were not handed out. They are dropped.
    """

    count: int = 0
    bytes: int = 0
    resent: int = 0
    streams: dict[str, StreamAcks] = field(default_factory=dict)
    further_answers: int = 0
    unmatched_answers: int = 0

    @property
    def duplicates(self) -> int:
        """Rows that the stream had already, by message id."""
        return sum(acks.duplicates for acks in self.streams.values())

    @property
    def stream(self) -> str | None:
        """Name of the stream; None for none or several streams."""
        return next(iter(self.streams)) if len(self.streams) == 1 else None

    @property
    def first_sequence(self) -> int | None:
        """First sequence if there is one stream; None for none or several streams."""
        return next(iter(self.streams.values())).first_sequence if len(self.streams) == 1 else None

    @property
    def last_sequence(self) -> int | None:
        """Last sequence if there is one stream; None for none or several streams."""
        return next(iter(self.streams.values())).last_sequence if len(self.streams) == 1 else None


class PublishRefusedError(Error, RuntimeError):
    """The server refused a row. Its own error is the cause.

    Attributes
    ----------
    row
        Number of the row, counted from 0 over all record batches. For an atomic batch, its first row.
    subject
        Subject of the row; empty if another stream had stored it, and this refusal came much later.
    error
        Error of the server.
    report
        Outcome of the rows before that row, and of those after it that were in flight.
    """

    def __init__(
        self, row: int, subject: str, error: Error, report: PublishReport, expected_stream: str | None = None
    ) -> None:
        expected = f"; the row was expected in stream {expected_stream}" if isinstance(error, WrongStreamError) else ""
        super().__init__(f"row {row}, subject {subject!r}: {error}{expected}")
        self.row = row
        self.subject = subject
        self.error = error
        self.report = report
