"""Configurations of buckets, and the configurations of their streams (ADR-8, ADR-48, ADR-57)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jetspark.jetstream.codec import KeywordStruct
from jetspark.jetstream.config import (
    DiscardPolicy,
    Placement,
    Republish,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from jetspark.jetstream.errors import BadBucketError, ConfigError, HistoryTooLargeError
from jetspark.jetstream.key_value.names import STREAM_PREFIX, bucket_of, check_bucket, key_prefix, stream_of
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
_DUPLICATE_WINDOW: Final = timedelta(minutes=2)
_NO_TIME: Final = timedelta(0)


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
    made = StreamConfig(
        name=stream_of(config.bucket),
        max_msgs_per_subject=1,
        max_msgs=-1,
        max_bytes=-1,
        max_msg_size=-1,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=_DUPLICATE_WINDOW,
        deny_delete=True,
        allow_rollup_hdrs=True,
        allow_direct=True,
        compression=StoreCompression.NONE,
    )
    if config.mirror is None:
        made = made.replace(subjects=[key_prefix(config.bucket) + ">"])
    return changed_stream_config(made, config)


def changed_stream_config(stream: StreamConfig, config: KeyValueConfig) -> StreamConfig:
    """Return the configuration of a bucket's stream with the fields changed that `config` sets. Errors are as above."""
    _check(config, mirrors=stream.mirror is not None)
    changes: dict[str, object] = {
        "description": config.description,
        "max_msgs_per_subject": config.history,
        "max_msg_size": config.max_value_size,
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "republish": config.republish,
        "metadata": config.metadata,
        "allow_atomic": config.allow_atomic,
    }
    if config.compression is not None:
        changes["compression"] = StoreCompression.S2 if config.compression else StoreCompression.NONE
    if config.ttl is not None:  # the server refuses a window above the age limit
        changes["max_age"] = config.ttl
        changes["duplicate_window"] = min(config.ttl, _DUPLICATE_WINDOW) if config.ttl else _DUPLICATE_WINDOW
    if config.limit_marker_ttl is not None:
        changes["subject_delete_marker_ttl"] = config.limit_marker_ttl
        changes["allow_msg_ttl"] = True
    if config.mirror is not None:
        changes["mirror"] = _with_prefix(config.mirror)
        changes["mirror_direct"] = True
    if config.sources is not None:
        changes["sources"] = [_source(each, config.bucket) for each in config.sources]
    return stream.replace(**{name: value for name, value in changes.items() if value is not None})


def check_stream(stream: StreamConfig) -> str:
    """Return the name of the bucket whose stream this is.

    Raises
    ------
    BadBucketError
        It is not the stream of a bucket.
    """
    bucket = bucket_of(stream.name)
    if bucket is None:
        raise BadBucketError(
            f"stream {stream.name!r} is no bucket: its name is not {STREAM_PREFIX} and a bucket's name"
        )
    if (stream.max_msgs_per_subject or 0) < 1:
        raise BadBucketError(f"stream {stream.name!r} is no bucket: it does not limit the messages of a subject")
    subject = key_prefix(bucket) + ">"
    if stream.mirror is None and subject not in (stream.subjects or ()):
        raise BadBucketError(f"stream {stream.name!r} is no bucket: it does not store {subject!r}")
    return bucket


def _check(config: KeyValueConfig, *, mirrors: bool) -> None:
    check_bucket(config.bucket)
    if config.history is not None and not 1 <= config.history <= _MAX_HISTORY:
        raise HistoryTooLargeError(f"history is 1 to {_MAX_HISTORY} revisions of a key, not {config.history}")
    if config.ttl is not None and config.ttl < _NO_TIME:
        raise ConfigError(f"ttl must not be negative: {config.ttl}")
    if config.mirror is not None and config.sources:
        raise ConfigError("a bucket has a mirror or sources, not both")
    if config.limit_marker_ttl is not None:
        if config.limit_marker_ttl < _MIN_MARKER_TTL:
            raise ConfigError(f"limit_marker_ttl is at least a second, not {config.limit_marker_ttl}")
        if mirrors or config.mirror is not None:
            raise ConfigError("a mirror has no limit_marker_ttl: it copies the markers of its origin")


def _with_prefix(source: StreamSource) -> StreamSource:
    return source if source.name.startswith(STREAM_PREFIX) else source.replace(name=STREAM_PREFIX + source.name)


def _source(source: StreamSource, bucket: str) -> StreamSource:
    """Return a source whose keys become keys of `bucket`; one with transforms of its own is not changed."""
    if source.subject_transforms:
        return source
    named = _with_prefix(source)
    origin = key_prefix(named.name.removeprefix(STREAM_PREFIX)) + ">"
    return named.replace(subject_transforms=[SubjectTransform(src=origin, dest=key_prefix(bucket) + ">")])
