"""Resolves positions to a range of sequences of one stream, and reports which of them are lost.

The range of a batch read is fixed when the read is planned: positions become sequences, limited to the extent of the
stream. If the options name sequences by number, those before the stream's first message are lost, and those up to an
end after its last message are missing. A start after the last message means that there is nothing yet, as with Kafka.
With `earliest`, `latest` and times nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jetspark.jetstream import StreamState
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import format_rfc3339
from jetspark.spark.options.values import Position, PositionKind

__all__ = ["Bounds", "Loss", "StreamRange", "check_found", "resolve_range"]


@dataclass(frozen=True, slots=True)
class StreamRange:
    """Sequences of a stream, from `start` (included) to `end` (excluded)."""

    stream: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of sequences. Some of them may be deleted or filtered out."""
        return self.end - self.start


@dataclass(slots=True)
class Bounds:
    """Bounds of whole numbers: `low` (included) to `high` (excluded); None is no bound."""

    low: int | None = None
    high: int | None = None

    @property
    def empty(self) -> bool:
        """Whether no number is within the bounds."""
        return self.low is not None and self.high is not None and self.low >= self.high

    def narrow(self, low: int | None = None, high: int | None = None) -> None:
        """Reduce the bounds to the intersection with these ones."""
        if low is not None:
            self.low = low if self.low is None else max(self.low, low)
        if high is not None:
            self.high = high if self.high is None else min(self.high, high)


@dataclass(frozen=True, slots=True)
class Loss:
    """Sequences that were requested and are lost: `first` to `last`, both included.

    Attributes
    ----------
    stream
        Name of the stream.
    first, last
        The sequences; None if they are not known exactly.
    reason
        Reason of the loss, for the message.
    gone
        Whether the stream had the sequences before. Otherwise it may not have them yet.
    """

    stream: str
    first: int | None
    last: int | None
    reason: str
    gone: bool = True

    def __str__(self) -> str:
        if self.first is None:
            return f"stream {self.stream}: {self.reason}"
        what = f"sequence {self.first} is" if self.first == self.last else f"sequences {self.first} to {self.last} are"
        return f"stream {self.stream}: {what} {'gone' if self.gone else 'not in it'}: {self.reason}"


def resolve_range(
    stream: str,
    state: StreamState,
    start: Position,
    end: Position,
    filters: Bounds,
    sequence_at: Callable[[int], int],
) -> tuple[StreamRange, list[Loss]]:
    """Return the sequences to read, and which of the requested ones are lost.

    Parameters
    ----------
    stream
        Name of the stream.
    state
        State of the stream.
    start, end
        Start (included) and end (excluded) of the read.
    filters
        Bounds of the sequences that a filter allows. Sequences outside of them are not requested, and not lost.
    sequence_at
        Returns the first sequence that was stored at or after a time in nanoseconds, one above the last if there is
        none.

    Raises
    ------
    ConfigError
        See `check_found`.
    """
    first = max(state.first_sequence, 1)
    end_of_stream = max(state.last_sequence + 1, first)
    wanted_start = _sequence(start, sequence_at)
    check_found(stream, start, wanted_start, end_of_stream)
    wanted_end = _sequence(end, sequence_at)
    if filters.low is not None:
        wanted_start = filters.low if wanted_start is None else max(wanted_start, filters.low)
    if filters.high is not None:
        wanted_end = filters.high if wanted_end is None else min(wanted_end, filters.high)
    from_start = first if wanted_start is None else max(min(wanted_start, end_of_stream), first)
    to_end = end_of_stream if wanted_end is None else min(wanted_end, end_of_stream)
    losses = _losses(
        stream,
        first,
        end_of_stream,
        wanted_start if start.kind is PositionKind.SEQUENCE else None,
        wanted_end if end.kind is PositionKind.SEQUENCE else None,
    )
    return StreamRange(stream, from_start, max(to_end, from_start)), losses


def check_found(stream: str, start: Position, found: int | None, end_of_stream: int) -> None:
    """Check that a stream has a message at or after a start time. Raises ConfigError if the options require one."""
    if start.must_exist and found is not None and found >= end_of_stream:
        raise ConfigError(
            f"option startingOffsetsByTimestampStrategy = error: stream {stream} has no message at or after "
            f"{format_rfc3339(start.value)}; give an earlier time, or set the option to latest to start at its end"
        )


def _sequence(position: Position, sequence_at: Callable[[int], int]) -> int | None:
    if position.kind is PositionKind.SEQUENCE:
        return position.value
    return sequence_at(position.value) if position.kind is PositionKind.TIME else None


def _losses(stream: str, first: int, end_of_stream: int, start: int | None, end: int | None) -> list[Loss]:
    """Return the sequences that were requested by number and are outside of the stream."""
    if start is not None and end is not None and start >= end:
        return []
    losses = []
    asked_from = 1 if start is None else start
    gone_to = first if end is None else min(first, end)
    if asked_from < gone_to and (start is not None or gone_to == end):
        losses.append(Loss(stream, asked_from, gone_to - 1, f"the stream starts at {first}"))
    ends = f"the stream ends at {end_of_stream - 1}"
    if end is not None and end > end_of_stream:
        losses.append(Loss(stream, max(end_of_stream, asked_from), end - 1, ends, gone=False))
    return losses
