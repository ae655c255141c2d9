"""What only the leader of a replicated stream knows.

A consumer, and a direct get, may be served by a replica that is still catching up: it has the beginning of what the
leader has, and "nothing is pending" means no more than that it has nothing more itself. Where a read ends by such a
word, the leader is asked.
"""

from __future__ import annotations

from jetspark.bulk.source import Target
from jetspark.jetstream import StreamInfo, Timestamp
from jetspark.jetstream.api import MessageGetRequest
from jetspark.jetstream.errors import MessageNotFoundError

__all__ = ["first_at", "is_replicated", "next_from"]


def is_replicated(info: StreamInfo) -> bool:
    """Whether there are replicas beside the leader."""
    return info.cluster is not None and bool(info.cluster.replicas)


def next_from(target: Target, sequence: int) -> int | None:
    """First sequence from one on that the filters let through; None when there is none."""
    found = [_get(target, sequence, subject) for subject in target.subjects or (">",)]
    return min((each for each in found if each is not None), default=None)


def first_at(target: Target, ns: int) -> int | None:
    """Sequence of the first message stored at or after a time, whatever the filters; None when there is none."""
    return _ask(target, MessageGetRequest(target.stream, start_time=Timestamp.from_ns(ns), no_headers=True))


def _get(target: Target, sequence: int, subject: str) -> int | None:
    return _ask(target, MessageGetRequest(target.stream, seq=sequence, next_by_subj=subject, no_headers=True))


def _ask(target: Target, request: MessageGetRequest) -> int | None:
    try:
        return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix).sequence
    except MessageNotFoundError:
        return None
