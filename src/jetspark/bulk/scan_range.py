"""Positions of a scan's range: from times and sequences to the sequences of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer_source import probe_consumer
from jetspark.bulk.leader_queries import has_replicas, leader_first_sequence_at
from jetspark.bulk.range_source import ReadLimits, ReadMethod, ReadTarget
from jetspark.jetstream import RetentionPolicy, StreamInfo, Timestamp
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.names import API_PREFIX, CONSUMER_PREFIX, check_consumer_prefix
from jetspark.jetstream.times import time_ns
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ScanBounds", "choose_method", "first_sequence_at", "sequence_at", "to_ns"]


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """The start and the end that the caller gave; None if not given. Times are in nanoseconds since 1970 UTC."""

    start_sequence: int | None
    start_ns: int | None
    end_sequence: int | None
    end_ns: int | None


@checks_arguments()
def first_sequence_at(
    connection: Connection,
    stream: str,
    when: datetime | int,
    *,
    timeout: float = 5.0,
    prefix: str = API_PREFIX,
    read_method: ReadMethod | str = ReadMethod.AUTO,
    consumer_prefix: str = CONSUMER_PREFIX,
) -> int:
    """Return the first sequence that was stored at or after a time; the last sequence plus one if there is none.

    Parameters
    ----------
    when
        `datetime`, or nanoseconds since 1970 UTC.
    read_method
        How to search, see `scan`; `direct` requests the message itself.
    consumer_prefix
        Beginning of the name of a consumer that is created for the search.
    """
    limits = ReadLimits(1, 1, 1, timeout, 0)
    target = ReadTarget(connection, stream, (), prefix, limits, check_consumer_prefix(consumer_prefix))
    info = connection.request(StreamInfoRequest(stream), timeout=timeout, prefix=prefix)
    return sequence_at(target, info, choose_method(info, ReadMethod(read_method)), to_ns(when) or 0)


def sequence_at(target: ReadTarget, info: StreamInfo, method: ReadMethod, ns: int) -> int:
    """Return the first sequence that was stored at or after `ns`; the last sequence plus one if there is none."""
    ns = max(ns, 0)
    if ns >= 1 << 63:  # after the year 2262, which the server cannot represent in nanoseconds either
        found = None
    elif method is ReadMethod.DIRECT or has_replicas(info):
        found = leader_first_sequence_at(target, ns)
    else:
        # Without filters: a bound is a position in the stream.
        consumer = probe_consumer(replace(target, subjects=()), opt_start_time=Timestamp.from_ns(ns))
        found = consumer.delivered.stream_sequence + 1 if consumer.num_pending else None
    return info.state.last_sequence + 1 if found is None else found


def choose_method(info: StreamInfo, method: ReadMethod) -> ReadMethod:
    """Return the way in which a stream is read."""
    if method is not ReadMethod.AUTO:
        return method
    return ReadMethod.CONSUMER if info.config.retention in {None, RetentionPolicy.LIMITS} else ReadMethod.DIRECT


def to_ns(when: datetime | int | None) -> int | None:
    """Return a time in nanoseconds since 1970 UTC."""
    return time_ns(when) if isinstance(when, datetime) else when
