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

A query that begins with a snapshot of a bucket has the snapshot in its offsets, too: it is fixed when the query starts.
No code here calls a server.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jetspark.jetstream import RetentionPolicy, StreamConfig, StreamInfo
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import duration_ns, format_go_duration, format_rfc3339, parse_rfc3339, time_ns
from jetspark.wire.untrusted import MAX_INT64, MAX_UINT64

__all__ = [
    "InitialSnapshot",
    "StreamExtent",
    "StreamOffset",
    "decode_offsets",
    "drops_single_messages",
    "encode_offsets",
    "has_replicas",
    "planned_cores",
]

VERSION: Final = 1
"""Version of the offsets' format. Only newer releases read a higher one. New optional keys need no new version."""


@dataclass(frozen=True, slots=True)
class InitialSnapshot:
    """The snapshot of a bucket with which a query begins.

    Attributes
    ----------
    revision
        Newest revision of the bucket when the query started. Up to it, only the newest entry of each key is read.
    history
        Number of revisions that the bucket kept of each key then.
    """

    revision: int
    history: int


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
    snapshot
        The snapshot with which the query began; None if it did not begin with one.
    """

    created_ns: int
    next: int
    start: int | None = None
    time_ns: int | None = None
    ahead: bool = False
    snapshot: InitialSnapshot | None = None

    @property
    def in_snapshot(self) -> bool:
        """Whether `next` is a revision of the snapshot."""
        return self.snapshot is not None and self.next <= self.snapshot.revision

    @property
    def at_whole_snapshot(self) -> bool:
        """Whether the next micro-batch is the whole snapshot, because the bucket kept several revisions of a key."""
        return self.in_snapshot and self.snapshot is not None and self.snapshot.history > 1

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
    if offset.snapshot is not None:
        entry["snapshot"] = offset.snapshot.revision
        entry["history"] = offset.snapshot.history
    return dict(sorted(entry.items()))


def decode_offsets(document: Mapping[str, object], streams: Collection[str] | None = None) -> dict[str, StreamOffset]:
    """Read a document that Spark passes back.

    Parameters
    ----------
    document
        Result of `encode_offsets`, from this run or an earlier one.
    streams
        Streams that it must have; None allows any.

    Raises
    ------
    ConfigError
        It is not a document of this source, has a newer version, or has other streams.
    """
    version, entries = document.get("version"), document.get("streams")
    if not isinstance(version, int) or not isinstance(entries, dict):
        raise ConfigError(f"the checkpoint has an offset of another source than jetstream: {reprlib.repr(document)}")
    if version > VERSION:
        raise ConfigError(
            f"the checkpoint was written by a newer jetspark: its offsets have version {version}, but this one reads "
            f"up to {VERSION}; update jetspark"
        )
    if streams is not None and set(entries) != set(streams):
        raise ConfigError(
            f"the checkpoint is of stream {', '.join(sorted(entries))}, but option stream names {', '.join(streams)}; "
            "use a new checkpointLocation, or the former streams"
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
        InitialSnapshot(_sequence(entry["snapshot"]), _sequence(entry["history"])) if "snapshot" in entry else None,
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
    first_ns, last_ns
        When its first and its last message were stored, nanoseconds since 1970; None if it is empty.
    stored_bytes
        Bytes of all its messages.
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
    first_ns: int | None = None
    stored_bytes: int = 0

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
            first_ns=time_ns(state.first_ts) if state.messages and state.first_ts else None,
            stored_bytes=state.bytes,
        )


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


def _describe_limits(config: StreamConfig) -> str:
    words = [
        f"{name} {value}"
        for name, value in (("max_msgs", config.max_msgs), ("max_bytes", config.max_bytes))
        if value is not None and value > 0
    ]
    if config.max_age:
        words.insert(0, f"max_age {format_go_duration(duration_ns(config.max_age))}")
    return ", ".join(words)
