"""Offsets of a streaming query: for each stream its identity and the sequence to read next.

Spark stores offsets in its checkpoint as JSON and compares them as text, so the keys are sorted and the format never
varies. The creation time of a stream is its identity: a stream that was deleted and created again has the same name and
another time.

The end offset of a micro-batch also holds the batch's start. The offset before it is not always the start: messages may
have been deleted in between. And the initial offset of a query is not in the checkpoint, so Spark asks for it again
when the first micro-batch is repeated. With both ends stored, and the number of cores by which it was split, a repeated
micro-batch has the same partitions again, also on another machine.

A stream may lose its end, because an older state of it was restored, and then be filled again. It has the same name,
creation time and sequences, but other messages. So the end offset also holds when the batch's last message was stored.

`resume` decides where reading continues, by the extent of a stream, and what is lost. No code here calls a server.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jetspark.jetstream import RetentionPolicy, StreamConfig, StreamInfo
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import duration_ns, format_go_duration, format_rfc3339, parse_rfc3339, time_ns
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.streams.ranges import Loss
from jetspark.wire.untrusted import MAX_INT64, MAX_UINT64

__all__ = [
    "StreamExtent",
    "StreamOffset",
    "Truncation",
    "decode_offsets",
    "drops_single_messages",
    "encode_ends",
    "encode_offsets",
    "has_replicas",
    "planned_cores",
    "resume",
    "start_offset",
]

VERSION: Final = 1
"""Version of the offsets' format. Only newer releases read a higher one. New optional keys need no new version."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """An offset in one stream.

    Attributes
    ----------
    created_ns
        When the stream was created, nanoseconds since 1970.
    next
        First sequence that is not read yet.
    start
        First sequence of the micro-batch that ends here; None for the initial offset of a query.
    time_ns
        When the message before `next` was stored, nanoseconds since 1970; None if unknown.
    ahead
        Whether the query began past the end of the stream and has read nothing of it: it waits for `next`.
    """

    created_ns: int
    next: int
    start: int | None = None
    time_ns: int | None = None
    ahead: bool = False

    def is_past_end(self, created_ns: int, last: int) -> bool:
        """Whether it is the same stream, and it ends before this offset, up to which the query has read it.

        With replicas, that need not be a loss: a leader that was just elected may not know all messages yet.
        """
        return created_ns == self.created_ns and last + 1 < self.next and not self.ahead


def encode_offsets(offsets: Mapping[str, StreamOffset], cores: int | None = None) -> dict[str, object]:
    """Return the document for Spark, which writes it as JSON with the keys in this order.

    Parameters
    ----------
    offsets
        Offset in each stream.
    cores
        Number of cores by which the micro-batch that ends here is split into partitions; None if there is none.
    """
    streams = {name: _entry(offset) for name, offset in sorted(offsets.items())}
    return {**({} if cores is None else {"cores": cores}), "streams": streams, "version": VERSION}


def planned_cores(document: Mapping[str, object]) -> int | None:
    """Return the number of cores in the end of a micro-batch; None if it has none, as those of earlier versions."""
    cores = document.get("cores")
    return cores if type(cores) is int and cores > 0 else None


def _entry(offset: StreamOffset) -> dict[str, object]:
    entry: dict[str, object] = {"created": format_rfc3339(offset.created_ns), "next": offset.next}
    if offset.start is not None:
        entry["start"] = offset.start
    if offset.time_ns is not None:
        entry["time"] = format_rfc3339(offset.time_ns)
    if offset.ahead:
        entry["ahead"] = True
    return entry


def encode_ends(
    extents: Mapping[str, StreamExtent], reached: Mapping[str, StreamOffset], subjects: Sequence[str]
) -> dict[str, object]:
    """Return the ends of the streams for Spark's progress: the place for what a query has left to read.

    Parameters
    ----------
    extents
        Extents of the streams.
    reached
        End of the last micro-batch that was planned; empty if there is none.
    subjects
        Filters that the server applies.
    """
    streams = {}
    for name, extent in sorted(extents.items()):
        streams[name] = _entry(StreamOffset(extent.created_ns, extent.end))
        if name in reached:
            streams[name]["lag"] = extent.sequences_after(reached[name])
        if subjects:
            streams[name]["subjects"] = list(subjects)
    return {"streams": streams, "version": VERSION}


def decode_offsets(document: Mapping[str, object], streams: Sequence[str]) -> dict[str, StreamOffset]:
    """Read a document that Spark passes back.

    Parameters
    ----------
    document
        Result of `encode_offsets`, from this run or an earlier one.
    streams
        Names in the option `stream`.

    Raises
    ------
    ConfigError
        It is not a document of this source, has a newer version, or names other streams than the option.
    """
    version, entries = document.get("version"), document.get("streams")
    if not isinstance(version, int) or not isinstance(entries, dict):
        raise ConfigError(f"the checkpoint has an offset of another source than jetstream: {reprlib.repr(document)}")
    if version > VERSION:
        raise ConfigError(
            f"the checkpoint was written by a newer jetspark: its offsets have version {version}, but this one reads "
            f"up to {VERSION}; update jetspark"
        )
    if set(entries) != set(streams):
        raise ConfigError(
            f"the checkpoint is of stream {', '.join(sorted(entries))}, but option stream names {', '.join(streams)}; "
            "the streams of a query cannot change: use a new checkpointLocation, or the former streams"
        )
    try:
        return {name: _offset(each) for name, each in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the checkpoint has an offset that cannot be read: {reprlib.repr(document)}") from error


def _offset(entry: Mapping[str, Any]) -> StreamOffset:
    start, time = entry.get("start"), entry.get("time")
    return StreamOffset(
        _in_int64(parse_rfc3339(entry["created"])),
        _sequence(entry["next"]),
        None if start is None else _sequence(start),
        None if time is None else _in_int64(parse_rfc3339(time)),
        entry.get("ahead") is True,
    )


def _sequence(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_UINT64:
        raise ValueError(f"not a sequence: {reprlib.repr(value)}")
    return value


def _in_int64(number: int) -> int:
    if abs(number) > MAX_INT64:
        raise ValueError(f"{number} does not fit in 64 bits")
    return number


@dataclass(frozen=True, slots=True)
class StreamExtent:
    """The extent of a stream, and the facts that a read needs about it.

    Attributes
    ----------
    stream
        Name of the stream.
    created_ns
        When it was created, nanoseconds since 1970.
    first, end
        Its first sequence, and the sequence after its last one.
    message_bytes
        Average size of a message.
    limits_text
        The limits by which the stream may have dropped messages, as text; empty without limits.
    drops_single_messages
        See `drops_single_messages`.
    replicated
        See `has_replicas`.
    last_ns
        When its last message was stored, nanoseconds since 1970; None if it is empty.
    """

    stream: str
    created_ns: int
    first: int
    end: int
    message_bytes: int
    limits_text: str = ""
    drops_single_messages: bool = False
    replicated: bool = False
    last_ns: int | None = None

    @classmethod
    def of(cls, info: StreamInfo, subjects: Sequence[str]) -> StreamExtent:
        """Return the extent by the server's info, for a read with these filters."""
        state = info.state
        first = max(state.first_sequence, 1)
        return cls(
            stream=info.config.name,
            created_ns=time_ns(info.created),
            first=first,
            end=max(state.last_sequence + 1, first),
            message_bytes=max(state.bytes // max(state.messages, 1), 1),
            limits_text=_describe_limits(info.config),
            drops_single_messages=drops_single_messages(info.config, subjects),
            replicated=has_replicas(info),
            last_ns=time_ns(state.last_ts) if state.messages and state.last_ts else None,
        )

    def sequences_after(self, offset: StreamOffset) -> int:
        """Return the number of sequences from an offset on; all of them if the offset is in another stream."""
        start = offset.next if offset.created_ns == self.created_ns else self.first
        return max(self.end - max(start, self.first), 0)


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


def has_replicas(info: StreamInfo) -> bool:
    """Whether the leader has replicas. Then a leader that was just elected may not know all messages yet."""
    return info.cluster is not None and bool(info.cluster.replicas)


def drops_single_messages(config: StreamConfig, subjects: Sequence[str]) -> bool:
    """Whether a stream drops single messages in normal operation, so that a gap is no loss.

    A stream that keeps the last messages of each subject drops older ones. Messages with a time to live expire. Work
    queues and interest streams drop what other consumers have acknowledged; a read with filters can ignore that.
    """
    by_subject = (config.max_msgs_per_subject or 0) > 0
    by_others = bool(subjects) and config.retention not in {None, RetentionPolicy.LIMITS}
    return by_subject or bool(config.allow_msg_ttl) or by_others


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
        return StreamOffset(extent.created_ns, extent.first), [Loss(extent.stream, None, None, reason)]
    if truncation is not None:
        return StreamOffset(offset.created_ns, truncation.first_lost), [truncation.loss(extent, offset)]
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
    return StreamOffset(offset.created_ns, extent.first), [] if extent.drops_single_messages else [loss]


def _describe_limits(config: StreamConfig) -> str:
    words = [
        f"{name} {value}"
        for name, value in (("max_msgs", config.max_msgs), ("max_bytes", config.max_bytes))
        if value is not None and value > 0
    ]
    if config.max_age:
        words.insert(0, f"max_age {format_go_duration(duration_ns(config.max_age))}")
    return ", ".join(words)
