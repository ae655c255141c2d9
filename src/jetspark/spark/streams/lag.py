"""The lag of a query: the rest of its streams, as the source reports it for Spark's progress.

Spark has no place for metrics of a Python source. But its progress contains the document that `reportLatestOffset`
returns. The names for the whole query are those of Spark's Kafka source and of Databricks. No code here calls a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jetspark.jetstream.times import format_rfc3339
from jetspark.spark.streams.offsets import VERSION, StreamExtent, StreamOffset

__all__ = ["Lag", "encode_ends"]


@dataclass(frozen=True, slots=True)
class Lag:
    """The rest of a stream after an offset.

    Attributes
    ----------
    messages
        Number of sequences. Messages that a filter leaves out and deleted ones count, because only the server knows.
    bytes
        Their bytes, as if the bytes of the stream were spread evenly over its sequences.
    seconds
        Time from the last message before the offset to the newest one of the stream, as the server stored them. If
        no message before the offset is in the stream, its first one counts instead. 0 if nothing is left; None if the
        time is not known, because the message before the offset was deleted.
    """

    messages: int
    bytes: int
    seconds: float | None

    @classmethod
    def of(cls, extent: StreamExtent, offset: StreamOffset) -> Lag:
        """Return the lag of a query that has read up to an offset; the whole stream if the offset is in another one."""
        first = extent.first
        start = max(offset.next, first) if offset.created_ns == extent.created_ns else first
        messages = max(extent.end - start, 0)
        if not messages:
            return cls(0, 0, 0.0)
        since = extent.first_ns if start == first else offset.time_ns
        return cls(
            messages,
            extent.stored_bytes * messages // (extent.end - first),
            None if since is None or extent.last_ns is None else max(extent.last_ns - since, 0) / 1e9,
        )


def encode_ends(
    extents: Mapping[str, StreamExtent], reached: Mapping[str, StreamOffset], subjects: Sequence[str]
) -> dict[str, object]:
    """Return the ends of the streams, with what the query has left to read of them.

    Parameters
    ----------
    extents
        Extents of the streams.
    reached
        End of the last micro-batch that was planned; empty if there is none.
    subjects
        Filters that the server applies.
    """
    lags = {name: Lag.of(extent, reached[name]) for name, extent in sorted(extents.items()) if name in reached}
    document: dict[str, object] = {
        "streams": {name: _entry(extent, lags.get(name), subjects) for name, extent in sorted(extents.items())},
        "version": VERSION,
    }
    if lags:
        messages = [lag.messages for lag in lags.values()]
        document["avgOffsetsBehindLatest"] = sum(messages) / len(messages)
        document["maxOffsetsBehindLatest"] = max(messages)
        document["minOffsetsBehindLatest"] = min(messages)
        document["estimatedTotalBytesBehindLatest"] = sum(lag.bytes for lag in lags.values())
    return document


def _entry(extent: StreamExtent, lag: Lag | None, subjects: Sequence[str]) -> dict[str, object]:
    entry: dict[str, object] = {"created": format_rfc3339(extent.created_ns), "next": extent.end}
    if extent.last_ns is not None:
        entry["time"] = format_rfc3339(extent.last_ns)
    if lag is not None:
        entry["lag"] = lag.messages
        entry["bytesBehind"] = lag.bytes
        if lag.seconds is not None:
            entry["secondsBehind"] = lag.seconds
    if subjects:
        entry["subjects"] = list(subjects)
    return entry
