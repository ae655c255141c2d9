"""The bucket as the target of writes: its subjects, its limits, and the stream that takes the writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from jetspark.bulk.connection import Connection
from jetspark.bulk.retry import request_with_retry
from jetspark.jetstream.api import Request, StreamInfoRequest
from jetspark.jetstream.buckets import KEY_VALUE
from jetspark.jetstream.errors import BucketNotFoundError, StreamNotFoundError
from jetspark.jetstream.key_value.config import check_stream
from jetspark.jetstream.key_value.names import key_subjects
from jetspark.jetstream.names import API_PREFIX

__all__ = ["BucketTarget", "find_bucket"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """A bucket as the target of writes.

    Attributes
    ----------
    bucket
        Name of the bucket.
    own_prefix
        Prefix of the API of the bucket.
    stream, prefix
        Name of the stream that takes the writes, and prefix of its API: those of the origin if the bucket is a mirror.
    stored_prefix, write_prefix
        The subjects up to the key, of stored entries and of writes.
    history
        Number of revisions of a key that are kept.
    max_size
        Most bytes of a value with its headers; None for no limit.
    allows_ttl
        Whether keys may have a time to live.
    last_revision
        The newest revision of the stream that takes the writes.
    """

    bucket: str
    own_prefix: str
    stream: str
    prefix: str
    stored_prefix: str
    write_prefix: str
    history: int
    max_size: int | None
    allows_ttl: bool
    last_revision: int


def find_bucket(
    connection: Connection,
    bucket: str,
    *,
    timeout: float = 5.0,
    prefix: str = API_PREFIX,
    retry_timeout: float = 0.0,
) -> BucketTarget:
    """Ask the server for a bucket.

    Parameters
    ----------
    timeout
        Seconds to wait for an answer.
    prefix
        Prefix of the API's subjects.
    retry_timeout
        Seconds to keep trying while the server cannot be reached.

    Raises
    ------
    InvalidBucketNameError
        The name cannot be used.
    BucketNotFoundError, BadBucketError
        There is no such bucket, or its stream is no bucket. For a mirror, this may be its origin.
    """

    def ask(request: Request[R], api: str) -> R:
        return request_with_retry(
            connection, lambda: connection.request(request, timeout=timeout, prefix=api), retry_timeout
        )

    stream = KEY_VALUE.stream_of(bucket)
    try:
        config = ask(StreamInfoRequest(stream), prefix).config
        check_stream(config)
        mirror = config.mirror
        stored, written = key_subjects(bucket, mirror, prefix)
        origin, api = stream, prefix
        if mirror is not None:
            origin = mirror.name
            api = f"{mirror.external.api}." if mirror.external is not None and mirror.external.api else prefix
        info = ask(StreamInfoRequest(origin), api)
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None
    return BucketTarget(
        bucket=bucket,
        own_prefix=prefix,
        stream=origin,
        prefix=api,
        stored_prefix=stored,
        write_prefix=written,
        history=info.config.max_msgs_per_subject or 1,
        max_size=size if (size := info.config.max_msg_size or 0) > 0 else None,
        allows_ttl=bool(info.config.allow_msg_ttl),
        last_revision=info.state.last_sequence,
    )
