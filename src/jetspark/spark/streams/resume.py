"""Where a streaming query begins and continues, by the extent of a stream, and what is lost. No code calls a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jetspark.jetstream.times import format_rfc3339
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.streams.offsets import InitialSnapshot, StreamExtent, StreamOffset
from jetspark.spark.streams.ranges import Loss, check_found

__all__ = [
    "Truncation",
    "batch_start",
    "end_offsets",
    "is_repositioned",
    "resume",
    "same_stream",
    "start_offset",
]


@dataclass(frozen=True, slots=True)
class Truncation:
    """The loss of a stream's end: messages that were read are gone. The stream may have been filled again.

    Attributes
    ----------
    first_lost
        First sequence that was lost, as far as the message times show it.
    time_ns
        When the present message with the sequence of the last message read was stored; None if the stream ends before
        that sequence.
    """

    first_lost: int
    time_ns: int | None

    def loss(self, extent: StreamExtent, reached: StreamOffset) -> Loss:
        """Return the loss of the messages before an offset that were read or planned."""
        last = reached.next - 1
        if self.time_ns is None or reached.time_ns is None:
            what = f"the checkpoint is ahead of the stream, which ends at {extent.end - 1}: an older state was restored"
        else:
            what = (
                f"an older state of the stream was restored and filled again: the message {last} that was read was "
                f"stored at {format_rfc3339(reached.time_ns)}, the present one at {format_rfc3339(self.time_ns)}"
            )
        return Loss(extent.stream, self.first_lost, last, f"{what}; new messages with these sequences are read")


def start_offset(extent: StreamExtent, position: Position, found: int | None = None) -> tuple[StreamOffset, list[Loss]]:
    """Return where a new query begins in a stream, and which requested sequences are lost.

    A sequence past the end of the stream is not lost: the query waits for it, as with Kafka.

    Parameters
    ----------
    extent
        Extent of the stream.
    position
        Start by the options.
    found
        Sequence of a position that is a time.

    Raises
    ------
    ConfigError
        See `check_found`.
    """
    first, end = extent.first, extent.end
    losses = []
    if position.kind is PositionKind.LATEST:
        wanted = end
    elif position.kind is PositionKind.SEQUENCE:
        wanted = position.value
        if wanted < first:
            losses.append(Loss(extent.stream, wanted, first - 1, f"the stream starts at {first}"))
        elif wanted > end:
            return StreamOffset(extent.created_ns, wanted, ahead=True), []
    else:
        check_found(extent.stream, position, found, end)
        wanted = first if found is None else found
    return StreamOffset(extent.created_ns, min(max(wanted, first), end)), losses


def resume(
    offset: StreamOffset, extent: StreamExtent, truncation: Truncation | None = None
) -> tuple[StreamOffset, list[Loss]]:
    """Return where reading continues, and which of the next sequences are lost.

    If the stream was created again or lost its end, reading continues before the reached offset, because the present
    messages there are not read yet.

    Parameters
    ----------
    offset
        The offset that was reached.
    extent
        Extent of the stream.
    truncation
        Truncation that was found; None if the stream still has the messages that were read, as far as is known.
    """
    if extent.created_ns != offset.created_ns:
        reason = (
            f"it was deleted and created again: the checkpoint is at sequence {offset.next} of the stream that was "
            f"created at {format_rfc3339(offset.created_ns)}; the present stream was created at "
            f"{format_rfc3339(extent.created_ns)}, and is read from sequence {extent.first}"
        )
        at = StreamOffset(extent.created_ns, extent.first, snapshot=_reduced(offset.snapshot, 0))
        return at, [Loss(extent.stream, None, None, reason)]
    if truncation is not None:
        snapshot = _reduced(offset.snapshot, truncation.first_lost - 1)
        at = StreamOffset(offset.created_ns, truncation.first_lost, snapshot=snapshot)
        return at, [truncation.loss(extent, offset)]
    if extent.first <= offset.next:
        return offset, []
    by = (
        f"dropped by its limits ({extent.limits_text}), purged or deleted"
        if extent.limits_text
        else "purged or deleted"
    )
    loss = Loss(
        extent.stream, offset.next, extent.first - 1, f"the stream starts at {extent.first} now; they were {by}"
    )
    at = StreamOffset(offset.created_ns, extent.first, snapshot=offset.snapshot)
    return at, [] if extent.drops_single_messages else [loss]


def _reduced(snapshot: InitialSnapshot | None, last: int) -> InitialSnapshot | None:
    """Return the part of a snapshot that ends at a revision. Entries after it are changes."""
    return None if snapshot is None else replace(snapshot, revision=min(snapshot.revision, last))


def same_stream(one: StreamOffset, other: StreamOffset) -> bool:
    """Whether two offsets are in one stream, and not in two that had its name one after the other."""
    return one.created_ns == other.created_ns


def is_repositioned(at: StreamOffset, begin: StreamOffset) -> bool:
    """Whether reading continues in another stream, or at sequences of this one that were read before."""
    return not same_stream(at, begin) or at.next < begin.next


def batch_start(begin: StreamOffset | None, end: StreamOffset) -> StreamOffset:
    """Return the start of the micro-batch between two offsets; None for a stream that joins with it."""
    start = end.start
    if start is None:
        start = end.next if begin is None else min(begin.next, end.next)
    return StreamOffset(end.created_ns, start, ahead=end.ahead, snapshot=end.snapshot)


def end_offsets(extents: Mapping[str, StreamExtent]) -> dict[str, StreamOffset]:
    """Return the offsets at the ends of streams."""
    return {stream: StreamOffset(each.created_ns, each.end) for stream, each in extents.items()}
