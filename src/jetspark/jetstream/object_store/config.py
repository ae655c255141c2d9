"""Configurations of object stores, and the configurations of their streams (ADR-20)."""

from __future__ import annotations

from jetspark.jetstream.buckets import OBJECTS, changed_fields, check_fields, new_stream
from jetspark.jetstream.codec import KeywordStruct
from jetspark.jetstream.config import Placement, StorageType, StreamConfig, StreamSource
from jetspark.jetstream.errors import BadBucketError
from jetspark.jetstream.times import DurationField

__all__ = ["ObjectStoreConfig", "changed_stream_config", "check_stream", "stream_config"]


class ObjectStoreConfig(KeywordStruct):
    """Configuration of a bucket of objects. Only its name is required.

    An unset field gets its default, or stays in an update.
    """

    bucket: str
    """Name: letters, digits, `_` and `-`."""
    description: str | None = None
    """Free text, at most 4 KiB."""
    ttl: DurationField | None = None
    """Time after which an object expires; zero (the default) for never."""
    max_bytes: int | None = None
    """Maximum bytes of the bucket, -1 (the default) for no limit."""
    storage: StorageType | None = None
    """Where the bucket is stored; file by default. Cannot be changed later."""
    replicas: int | None = None
    """Number of replicas in the cluster, 1 to 5; 1 by default."""
    placement: Placement | None = None
    """Placement in the cluster."""
    compression: bool | None = None
    """Whether to compress the store; not by default."""
    metadata: dict[str, str] | None = None
    """Free texts by key."""
    mirror: StreamSource | None = None
    """Bucket of which this one is a copy; its name with or without `OBJ_`."""
    sources: list[StreamSource] | None = None
    """Buckets whose objects are copied into this one; their names with or without `OBJ_`."""


def stream_config(config: ObjectStoreConfig) -> StreamConfig:
    """Return the configuration of the stream of a new bucket.

    Raises
    ------
    InvalidBucketNameError, ConfigError
        The configuration is not valid.
    """
    made = new_stream(OBJECTS, config.bucket).replace(max_msgs_per_subject=-1)
    if config.mirror is None:
        made = made.replace(subjects=_subjects(config.bucket))
    return changed_stream_config(made, config)


def changed_stream_config(stream: StreamConfig, config: ObjectStoreConfig) -> StreamConfig:
    """Return the configuration of a bucket's stream with the fields changed that `config` sets. Errors are as above."""
    check_fields(OBJECTS, config)
    return stream.replace(**changed_fields(OBJECTS, config))


def check_stream(stream: StreamConfig) -> str:
    """Return the name of the bucket whose stream this is.

    Raises
    ------
    BadBucketError
        It is not the stream of a bucket of objects.
    """
    bucket = OBJECTS.bucket_of(stream.name)
    if bucket is None:
        raise BadBucketError(
            f"stream {stream.name!r} is no object store: its name is not {OBJECTS.stream_prefix} and a bucket's name"
        )
    if stream.mirror is None:
        for subject in _subjects(bucket):
            if subject not in (stream.subjects or ()):
                raise BadBucketError(f"stream {stream.name!r} is no object store: it does not store {subject!r}")
    return bucket


def _subjects(bucket: str) -> list[str]:
    prefix = OBJECTS.subjects_of(bucket)
    return [f"{prefix}C.>", f"{prefix}M.>"]
