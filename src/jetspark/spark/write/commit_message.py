"""The commit message of a task: the counts of its rows. The driver adds the messages up, and logs a summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    from jetspark.spark.write.rows import Published

__all__ = [
    "StreamRowCounts",
    "TaskCommitMessage",
    "conflicts_warning",
    "dead_letters_warning",
    "duplicates_warning",
    "left_out_warning",
    "merge_messages",
    "summary",
]


@dataclass(slots=True)
class StreamRowCounts:
    """Rows that one stream stored.

    Attributes
    ----------
    count
        Acknowledged rows, duplicates included.
    duplicates
        Rows that the stream already had, by their message id.
    first_sequence, last_sequence
        Lowest and highest sequence of the newly stored rows; None if there are none.
    """

    count: int
    duplicates: int
    first_sequence: int | None
    last_sequence: int | None

    def add(self, other: StreamRowCounts) -> None:
        """Add the rows of another task."""
        self.count += other.count
        self.duplicates += other.duplicates
        first = [each for each in (self.first_sequence, other.first_sequence) if each is not None]
        last = [each for each in (self.last_sequence, other.last_sequence) if each is not None]
        self.first_sequence = min(first, default=None)
        self.last_sequence = max(last, default=None)


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The counts of one task.

    Attributes
    ----------
    partition
        Number of the task's partition.
    bytes
        Bytes sent.
    streams
        Counts of each stream, by its name.
    resent
        Rows that were sent again, because the connection was lost or the server did not answer in time.
    skipped
        Rows that were not sent, because an earlier run of the task, or an earlier try, had stored them.
    conflicts
        Rows for a bucket that were left out, because the newest revision of their key was another one than expected.
    dead_letters
        Rows that can never be stored, and were published as dead letters by this or an earlier run of the task.
    dead_letter_reason
        Reason of the first of them.
    run_id
        Id of the run of the query, a new one at each start; None outside of a query.
    own_ids
        Whether rows may have message ids of their own.
    left_out
        Names of the headers that were left out because they command the server.
    warnings
        Warnings for the driver, by the stream's name. It logs each warning once in a run.
    """

    partition: int
    bytes: int
    streams: dict[str, StreamRowCounts] = field(default_factory=dict)
    resent: int = 0
    skipped: int = 0
    conflicts: int = 0
    dead_letters: int = 0
    dead_letter_reason: str | None = None
    run_id: str | None = None
    own_ids: bool = False
    left_out: set[str] = field(default_factory=set)
    warnings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, partition: int, published: Published) -> TaskCommitMessage:
        """Return the message for the outcome of the rows."""
        report = published.report
        streams = {
            name: StreamRowCounts(acks.count, acks.duplicates, acks.first_sequence, acks.last_sequence)
            for name, acks in report.streams.items()
        }
        return cls(
            partition,
            report.bytes,
            streams,
            report.resent,
            published.skipped,
            published.conflicts,
            published.dead_letters,
            published.dead_letter_reason,
        )

    def add(self, other: TaskCommitMessage) -> None:
        """Add the counts of another task."""
        self.bytes += other.bytes
        self.resent += other.resent
        self.skipped += other.skipped
        self.conflicts += other.conflicts
        self.dead_letters += other.dead_letters
        self.dead_letter_reason = self.dead_letter_reason or other.dead_letter_reason
        self.run_id = self.run_id or other.run_id
        self.own_ids = self.own_ids or other.own_ids
        self.left_out |= other.left_out
        self.warnings |= other.warnings
        for stream, rows in other.streams.items():
            self.streams.setdefault(stream, StreamRowCounts(0, 0, None, None)).add(rows)


def merge_messages(messages: Iterable[WriterCommitMessage | None]) -> TaskCommitMessage:
    """Return the sum of all tasks. Failed tasks have no message."""
    whole = TaskCommitMessage(0, 0)
    for message in messages:
        if isinstance(message, TaskCommitMessage):
            whole.add(message)
    return whole


def left_out_warning(names: Iterable[str]) -> str:
    """Return the warning about headers that were left out."""
    return (
        f"the rows have headers that command the server, and these were left out: {', '.join(sorted(names))}; set "
        "option controlHeaders to keep to publish them, or drop them from the column headers"
    )


def duplicates_warning(rows: TaskCommitMessage) -> str | None:
    """Return the warning about rows that were not stored because of their own ids; None if there are none."""
    found = {name: each.duplicates for name, each in sorted(rows.streams.items()) if each.duplicates}
    if not rows.own_ids or sum(found.values()) <= rows.resent:  # a row that was sent again is its own duplicate
        return None
    counts = ", ".join(f"{count} of {rows.streams[name].count} rows in stream {name}" for name, count in found.items())
    return (
        f"rows were not stored, because the stream has had their message ids within its duplicate window: {counts}; "
        "this is normal if a task was run again; otherwise other messages had these ids, also if they were purged"
    )


def conflicts_warning(rows: TaskCommitMessage) -> str | None:
    """Return the warning about rows for a bucket whose expected revision was wrong; None if there are none."""
    if not rows.conflicts:
        return None
    return (
        f"{rows.conflicts} rows were not stored, because the newest revision of their key was not expected_revision "
        "(option onConflict = skip); the logs of the tasks have the first keys"
    )


def dead_letters_warning(rows: TaskCommitMessage) -> str | None:
    """Return the warning about rows that are dead letters; None if there are none."""
    if not rows.dead_letters:
        return None
    return (
        f"{rows.dead_letters} rows can never be stored, and are dead letters (option deadLetterSubject); the first "
        f"reason: {rows.dead_letter_reason or 'see the dead letters'}"
    )


def summary(rows: TaskCommitMessage) -> str:
    """Return a summary in one line."""
    parts = [_stream_summary(name, each) for name, each in sorted(rows.streams.items())]
    if rows.skipped:
        parts.append(f"{rows.skipped} rows skipped, which were stored before")
    if rows.conflicts:
        parts.append(f"{rows.conflicts} rows skipped because of another revision")
    if rows.dead_letters:
        parts.append(f"{rows.dead_letters} dead letters")
    if rows.resent:
        parts.append(f"{rows.resent} rows sent again")
    if rows.bytes:
        parts.append(f"{rows.bytes} bytes")
    return "; ".join(parts) or "no rows"


def _stream_summary(name: str, rows: StreamRowCounts) -> str:
    text = f"stream {name}: {rows.count} rows"
    if rows.first_sequence is not None:
        text += f", stored at sequences {rows.first_sequence} to {rows.last_sequence}"
    return f"{text}, {rows.duplicates} already stored" if rows.duplicates else text
