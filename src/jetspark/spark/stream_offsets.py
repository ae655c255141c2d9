"""Offsets of a streaming query: for each stream which one it is, and the sequence to read next.

Spark keeps them in its checkpoint as JSON and compares them as text, so keys are sorted and nothing in them varies. The
time at which a stream was made is its identity: one that was deleted and made again has the name and another time.

The end of a micro-batch also says where it starts. The offset before it does not always: messages may have gone in
between, and what a query began with is not in the checkpoint, so Spark asks for it anew when the first micro-batch is
repeated. With both ends written down, a repeated micro-batch is cut into partitions as it was the first time.

`resume` says where reading goes on, given what a stream holds now, and what of it is gone. Nothing here asks a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jetspark.jetstream import RetentionPolicy, StreamConfig, StreamInfo
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import duration_ns, format_go_duration, format_rfc3339, parse_rfc3339, time_ns
from jetspark.spark.offsets import Loss
from jetspark.spark.option_values import Position, PositionKind

__all__ = ["Held", "StreamOffset", "read_offset", "resume", "start_offset", "thins_out", "write_offset"]

VERSION: Final = 1
"""Form of the offsets. A later one may be read by later versions only."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Place in one stream.

    Attributes
    ----------
    created_ns
        When the stream was made, nanoseconds since 1970.
    next
        First sequence that was not read.
    start
        First sequence of the micro-batch that ends here; None where a query begins, which is no micro-batch.
    """

    created_ns: int
    next: int
    start: int | None = None

    def is_behind(self, created_ns: int, last: int) -> bool:
        """Whether a stream, which is this one, ends before this place.

        Of a stream with replicas that may be no loss: a leader that was just elected may not know of everything yet.
        """
        return created_ns == self.created_ns and last + 1 < self.next


def write_offset(offsets: Mapping[str, StreamOffset]) -> dict[str, object]:
    """Return what Spark is given: it makes JSON of it, keys as they stand here."""
    return {"streams": {name: _entry(offset) for name, offset in sorted(offsets.items())}, "version": VERSION}


def _entry(offset: StreamOffset) -> dict[str, object]:
    entry: dict[str, object] = {"created": format_rfc3339(offset.created_ns), "next": offset.next}
    return entry if offset.start is None else {**entry, "start": offset.start}


def read_offset(document: Mapping[str, object], streams: Sequence[str]) -> dict[str, StreamOffset]:
    """Read what Spark gives back.

    Parameters
    ----------
    document
        What `write_offset` made, now or in an earlier run.
    streams
        Names of the option `stream`.

    Raises
    ------
    ConfigError
        It is none of ours, of a later version, or of other streams than those of the option.
    """
    version, entries = document.get("version"), document.get("streams")
    if not isinstance(version, int) or not isinstance(entries, dict):
        raise ConfigError(f"the checkpoint holds no offset of jetstream: {str(document)[:200]}")
    if version > VERSION:
        raise ConfigError(
            f"the checkpoint was written by a newer jetspark: its offsets have version {version}, this one reads "
            f"{VERSION}"
        )
    if set(entries) != set(streams):
        raise ConfigError(
            f"the checkpoint is of stream {', '.join(sorted(entries))}, and option stream says {', '.join(streams)}; "
            "streams of a query do not change: give it a checkpoint of its own, or the streams that it had"
        )
    try:
        return {name: _offset(each) for name, each in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the checkpoint holds an offset that cannot be read: {str(document)[:200]}") from error


def _offset(entry: Mapping[str, Any]) -> StreamOffset:
    start = entry.get("start")
    return StreamOffset(parse_rfc3339(entry["created"]), int(entry["next"]), None if start is None else int(start))


@dataclass(frozen=True, slots=True)
class Held:
    """What a stream holds.

    Attributes
    ----------
    stream
        Its name.
    created_ns
        When it was made.
    first, behind
        Its first sequence and the one behind its last.
    message_bytes
        Bytes of a message, on average.
    dropped_by
        What its configuration may have dropped messages by, in words; empty when nothing.
    thins
        See `thins_out`.
    """

    stream: str
    created_ns: int
    first: int
    behind: int
    message_bytes: int
    dropped_by: str = ""
    thins: bool = False

    @classmethod
    def of(cls, info: StreamInfo, subjects: Sequence[str]) -> Held:
        """Take over what the server says, for a read with these filters."""
        state = info.state
        first = max(state.first_seq, 1)
        return cls(
            stream=info.config.name,
            created_ns=time_ns(info.created),
            first=first,
            behind=max(state.last_seq + 1, first),
            message_bytes=max(state.bytes // max(state.messages, 1), 1),
            dropped_by=_limits_in_words(info.config),
            thins=thins_out(info.config, subjects),
        )


def thins_out(config: StreamConfig, subjects: Sequence[str]) -> bool:
    """Whether messages of a stream go one by one as a matter of course, so that a gap is no loss.

    A stream that keeps the last messages of each subject drops older ones; messages with a time to live expire; and on
    work queues and interest streams what other consumers are done with goes, which a read with filters need not mind.
    """
    by_subject = (config.max_msgs_per_subject or 0) > 0
    by_others = bool(subjects) and config.retention not in {None, RetentionPolicy.LIMITS}
    return by_subject or bool(config.allow_msg_ttl) or by_others


def start_offset(held: Held, position: Position, found: int | None = None) -> tuple[StreamOffset, list[Loss]]:
    """Return where a new query begins in a stream, and what is gone of what was asked for by number.

    Parameters
    ----------
    held
        What the stream holds.
    position
        What the options say.
    found
        The sequence for a position that is a time.
    """
    first, behind = held.first, held.behind
    losses = []
    if position.kind is PositionKind.LATEST:
        wanted = behind
    elif position.kind is PositionKind.SEQUENCE:
        wanted = position.value
        if wanted < first:
            losses.append(Loss(held.stream, wanted, first - 1, f"the stream starts at {first}"))
        elif wanted > behind:
            losses.append(Loss(held.stream, behind, wanted - 1, f"the stream ends at {behind - 1}"))
    else:
        wanted = first if found is None else found
    return StreamOffset(held.created_ns, min(max(wanted, first), behind)), losses


def resume(offset: StreamOffset, held: Held) -> tuple[StreamOffset, list[Loss]]:
    """Return where reading goes on, and what is gone of what would have come next.

    A place behind the end of the stream stays as it is: an end never lies before a start.
    """
    if held.created_ns != offset.created_ns:
        reason = (
            f"it was deleted and made again: the checkpoint is of the stream that was created at "
            f"{format_rfc3339(offset.created_ns)}, at sequence {offset.next}; the stream of that name was created at "
            f"{format_rfc3339(held.created_ns)}, and is read from sequence {held.first}"
        )
        return StreamOffset(held.created_ns, held.first), [Loss(held.stream, None, None, reason)]
    if held.behind < offset.next:
        reason = (
            f"the checkpoint is ahead of the stream, which ends at {held.behind - 1}: an older state of it was "
            f"restored; what gets a sequence below {offset.next} is not read"
        )
        return offset, [Loss(held.stream, held.behind, offset.next - 1, reason)]
    if held.first <= offset.next:
        return offset, []
    by = f"dropped by its limits ({held.dropped_by}), purged or deleted" if held.dropped_by else "purged or deleted"
    loss = Loss(held.stream, offset.next, held.first - 1, f"the stream starts at {held.first} now; they were {by}")
    return StreamOffset(offset.created_ns, held.first), [] if held.thins else [loss]


def _limits_in_words(config: StreamConfig) -> str:
    words = [
        f"{name} {value}"
        for name, value in (("max_msgs", config.max_msgs), ("max_bytes", config.max_bytes))
        if value is not None and value > 0
    ]
    if config.max_age:
        words.insert(0, f"max_age {format_go_duration(duration_ns(config.max_age))}")
    return ", ".join(words)
