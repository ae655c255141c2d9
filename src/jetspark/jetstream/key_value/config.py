"""Configurations of buckets, and the configurations of their streams (ADR-8, ADR-48, ADR-57)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jetspark.jetstream.buckets import KEY_VALUE, changed_fields, check_fields, new_stream
from jetspark.jetstream.codec import KeywordStruct
from jetspark.jetstream.config import Placement, Republish, StorageType, StreamConfig, StreamSource
from jetspark.jetstream.errors import BadBucketError, ConfigError, HistoryTooLargeError
from jetspark.jetstream.times import DurationField

__all__ = [
    "MARKER_API_LEVEL",
    "KeyValueConfig",
    "changed_stream_config",
    "check_stream",
    "stream_config",
]

MARKER_API_LEVEL: Final = 1
"""API level of the first servers that write markers of expired values."""
SMALL_VALUE: Final = 256
"""Below this `max_value_size` the bucket may have no room for the headers of a deletion."""

_MAX_HISTORY: Final = 64
_MIN_MARKER_TTL: Final = timedelta(seconds=1)


class KeyValueConfig(KeywordStruct):
    """Configuration of a bucket. Only its name is required; an unset field gets its default, or stays in an update."""

    bucket: str
    """Name: letters, digits, `_` and `-`."""
    description: str | None = None
    """Free text, at most 4 KiB."""
    history: int | None = None
    """Number of revisions to keep of each key, 1 to 64; 1 by default."""
    ttl: DurationField | None = None
    """Time after which a revision expires; zero (the default) for never."""
    limit_marker_ttl: DurationField | None = None
    """How long the marker of an expired value stays, at least a second; by default there are none. It also allows a
    time to live for single keys."""
    max_value_size: int | None = None
    """Maximum bytes of a value with its headers, -1 (the default) for no limit."""
    max_bytes: int | None = None
    """Maximum bytes of the bucket, -1 (the default) for no limit."""
    storage: StorageType | None = None
    """Where the bucket is stored; file by default. Cannot be changed later."""
    replicas: int | None = None
    """Number of replicas in the cluster, 1 to 5; 1 by default."""
    placement: Placement | None = None
    """Placement in the cluster."""
    republish: Republish | None = None
    """Rule that publishes every entry again, to another subject."""
    compression: bool | None = None
    """Whether to compress the store; not by default."""
    metadata: dict[str, str] | None = None
    """Free texts by key."""
    mirror: StreamSource | None = None
    """Bucket of which this one is a copy; its name with or without `KV_`."""
    sources: list[StreamSource] | None = None
    """Buckets whose entries are copied into this one; their names with or without `KV_`."""
    allow_atomic: bool | None = None
    """Whether several keys can be written all or nothing (ADR-50); not by default."""


def stream_config(config: KeyValueConfig) -> StreamConfig:
    """Return the configuration of the stream of a new bucket.

    Raises
    ------
    InvalidBucketNameError, HistoryTooLargeError, ConfigError
        The configuration is not valid.
    """
    made = new_stream(KEY_VALUE, config.bucket).replace(max_msgs_per_subject=1, deny_delete=True)
    if config.mirror is None:
        made = made.replace(subjects=[KEY_VALUE.subjects_of(config.bucket) + ">"])
    return changed_stream_config(made, config)


def changed_stream_config(stream: StreamConfig, config: KeyValueConfig) -> StreamConfig:
    """Return the configuration of a bucket's stream with the fields changed that `config` sets. Errors are as above."""
    _check(config, mirrors=stream.mirror is not None)
    changes: dict[str, object] = {
        "max_msgs_per_subject": config.history,
        "max_msg_size": config.max_value_size,
        "republish": config.republish,
        "allow_atomic": config.allow_atomic,
    }
    if config.limit_marker_ttl is not None:
        changes["subject_delete_marker_ttl"] = config.limit_marker_ttl
        changes["allow_msg_ttl"] = True
    given = {name: value for name, value in changes.items() if value is not None}
    return stream.replace(**changed_fields(KEY_VALUE, config), **given)


def check_stream(stream: StreamConfig) -> str:
    """Return the name of the bucket whose stream this is.

    Raises
    ------
    BadBucketError
        It is not the stream of a bucket.
    """
    bucket = KEY_VALUE.bucket_of(stream.name)
    if bucket is None:
        raise BadBucketError(
            f"stream {stream.name!r} is no bucket: its name is not {KEY_VALUE.stream_prefix} and a bucket's name"
        )
    if (stream.max_msgs_per_subject or 0) < 1:
        raise BadBucketError(f"stream {stream.name!r} is no bucket: it does not limit the messages of a subject")
    subject = KEY_VALUE.subjects_of(bucket) + ">"
    if stream.mirror is None and subject not in (stream.subjects or ()):
        raise BadBucketError(f"stream {stream.name!r} is no bucket: it does not store {subject!r}")
    return bucket


def _check(config: KeyValueConfig, *, mirrors: bool) -> None:
    check_fields(KEY_VALUE, config)
    if config.history is not None and not 1 <= config.history <= _MAX_HISTORY:
        raise HistoryTooLargeError(f"history is 1 to {_MAX_HISTORY} revisions of a key, not {config.history}")
    if config.limit_marker_ttl is not None:
        if config.limit_marker_ttl < _MIN_MARKER_TTL:
            raise ConfigError(f"limit_marker_ttl is at least a second, not {config.limit_marker_ttl}")
        if mirrors or config.mirror is not None:
            raise ConfigError("a mirror has no limit_marker_ttl: it copies the markers of its origin")
