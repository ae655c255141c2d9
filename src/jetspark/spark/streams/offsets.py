"""Offsets of a streaming query: for each stream which one it is, and the sequence to read next.

Spark keeps them in its checkpoint as JSON and compares them as text, so keys are sorted and nothing in them varies. The
time at which a stream was made is its identity: one that was deleted and made again has the name and another time.

The end of a micro-batch also says where it starts. The offset before it does not always: messages may have gone in
between, and what a query began with is not in the checkpoint, so Spark asks for it anew when the first micro-batch is
repeated. With both ends written down, a repeated micro-batch is cut into partitions as it was the first time.

A stream that lost its end (an older state of it was restored) and was filled again has its name, its time and the
sequences, and other messages. So the end of a micro-batch also says when its last message was stored.

`resume` says where reading goes on, given what a stream holds now, and what of it is gone. Nothing here asks a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jetspark.jetstream import RetentionPolicy, StreamConfig, StreamInfo
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import duration_ns, format_go_duration, format_rfc3339, parse_rfc3339, time_ns
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.streams.ranges import Loss

__all__ = [
    "Held",
    "Rewound",
    "StreamOffset",
    "has_replicas",
    "read_offset",
    "resume",
    "start_offset",
    "thins_out",
    "write_offset",
]

VERSION: Final = 1
"""Form of the offsets. A later one may be read by later versions only; what may be left out needs no later one."""


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
    time_ns
        When the message before `next` was stored, nanoseconds since 1970; None where that is not known.
    """

    created_ns: int
    next: int
    start: int | None = None
    time_ns: int | None = None

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
    if offset.start is not None:
        entry["start"] = offset.start
    if offset.time_ns is not None:
        entry["time"] = format_rfc3339(offset.time_ns)
    return entry


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
    start, time = entry.get("start"), entry.get("time")
    return StreamOffset(
        parse_rfc3339(entry["created"]),
        int(entry["next"]),
        None if start is None else int(start),
        None if time is None else parse_rfc3339(time),
    )


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
    replicated
        See `has_replicas`.
    last_ns
        When its last message was stored, nanoseconds since 1970; None when there is none.
    """

    stream: str
    created_ns: int
    first: int
    behind: int
    message_bytes: int
    dropped_by: str = ""
    thins: bool = False
    replicated: bool = False
    last_ns: int | None = None

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
            replicated=has_replicas(info),
            last_ns=time_ns(state.last_ts) if state.messages and state.last_ts else None,
        )


@dataclass(frozen=True, slots=True)
class Rewound:
    """A stream that does not hold what was read of it: it lost its end, and may have been filled again.

    Attributes
    ----------
    since
        First sequence of what was lost, as far as the times of the messages tell.
    time_ns
        When the message was stored that is now in the place of the last one that was read; None where the stream ends
        before that place.
    """

    since: int
    time_ns: int | None

    def loss(self, held: Held, reached: StreamOffset) -> Loss:
        """Say what is gone of what was read, or was to be read, before a place."""
        last = reached.next - 1
        if self.time_ns is None or reached.time_ns is None:
            what = (
                f"the checkpoint is ahead of the stream, which ends at {held.behind - 1}: an older state was restored"
            )
        else:
            what = (
                f"an older state of the stream was restored and filled again: message {last}, which the checkpoint is "
                f"of, was stored at {format_rfc3339(reached.time_ns)}, and the one that the stream has now at "
                f"{format_rfc3339(self.time_ns)}"
            )
        return Loss(held.stream, self.since, last, f"{what}; others that get their sequences are read")


def has_replicas(info: StreamInfo) -> bool:
    """Whether there are replicas beside the leader: one that was just elected may not know of everything yet."""
    return info.cluster is not None and bool(info.cluster.replicas)


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


def resume(offset: StreamOffset, held: Held, rewound: Rewound | None = None) -> tuple[StreamOffset, list[Loss]]:
    """Return where reading goes on, and what is gone of what would have come next.

    Of a stream that is another one, or that lost its end, that is a place before the one that was reached: what is
    there has not been read.

    Parameters
    ----------
    offset
        The place that was reached.
    held
        What the stream holds.
    rewound
        What was found out about what was read of it; None when it is still there, as far as can be told.
    """
    if held.created_ns != offset.created_ns:
        reason = (
            f"it was deleted and made again: the checkpoint is of the stream that was created at "
            f"{format_rfc3339(offset.created_ns)}, at sequence {offset.next}; the stream of that name was created at "
            f"{format_rfc3339(held.created_ns)}, and is read from sequence {held.first}"
        )
        return StreamOffset(held.created_ns, held.first), [Loss(held.stream, None, None, reason)]
    if rewound is not None:
        return StreamOffset(offset.created_ns, rewound.since), [rewound.loss(held, offset)]
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
