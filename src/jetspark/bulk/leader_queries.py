"""Questions that only the leader of a replicated stream can answer.

A consumer and a direct get may be served by a replica that is still catching up. It has the first part of the leader's
messages, and "nothing is pending" then only means that the replica has nothing more. If a read ends that way, the
leader is asked.
"""

from __future__ import annotations

from jetspark.bulk.range_source import ReadTarget
from jetspark.jetstream import StreamInfo, Timestamp
from jetspark.jetstream.api import MessageGetRequest
from jetspark.jetstream.errors import MessageNotFoundError

__all__ = ["has_replicas", "leader_first_sequence_at", "next_matching_sequence"]


def has_replicas(info: StreamInfo) -> bool:
    """Whether there are replicas besides the leader."""
    return info.cluster is not None and bool(info.cluster.replicas)


def next_matching_sequence(target: ReadTarget, sequence: int) -> int | None:
    """Return the first matching sequence at or after `sequence`; None if there is none."""
    found = [_get(target, sequence, subject) for subject in target.subjects or (">",)]
    return min((each for each in found if each is not None), default=None)


def leader_first_sequence_at(target: ReadTarget, ns: int) -> int | None:
    """Return the sequence of the first message stored at or after a time, without filters; None if there is none."""
    return _ask(target, MessageGetRequest(target.stream, start_time=Timestamp.from_ns(ns), no_headers=True))


def _get(target: ReadTarget, sequence: int, subject: str) -> int | None:
    return _ask(target, MessageGetRequest(target.stream, sequence=sequence, next_by_subject=subject, no_headers=True))


def _ask(target: ReadTarget, request: MessageGetRequest) -> int | None:
    try:
        return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix).sequence
    except MessageNotFoundError:
        return None
