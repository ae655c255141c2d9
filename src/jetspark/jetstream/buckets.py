"""Buckets of both kinds, of keys and values and of objects: names, configurations, state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from jetspark.jetstream.config import (
    DiscardPolicy,
    Placement,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from jetspark.jetstream.errors import ArgumentError, ConfigError, InvalidBucketNameError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.times import DurationField

__all__ = [
    "KEY_VALUE",
    "MAX_SUBJECT",
    "OBJECTS",
    "BucketConfig",
    "BucketKind",
    "BucketStatus",
    "changed_fields",
    "check_fields",
    "new_stream",
]

MAX_SUBJECT: Final = 3800
"""Maximum bytes of a subject: the server's line limit is 4,096 bytes for the subject, the reply and the sizes."""
_MAX_STREAM: Final = 255
"""Maximum characters of the name of a stream."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_DUPLICATE_WINDOW: Final = timedelta(minutes=2)
_NO_TIME: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class BucketKind:
    """Where the buckets of one kind are: the names and subjects of their streams."""

    stream_prefix: str
    """Prefix of the names of their streams."""
    subject_prefix: str
    """Prefix of their subjects."""

    def stream_of(self, bucket: str) -> str:
        """Return the name of the stream of a bucket.

        Raises
        ------
        InvalidBucketNameError
            The bucket's name is not made of letters, digits, `_` and `-`, or is too long.
        """
        if not isinstance(bucket, str):
            raise ArgumentError(f"the name of a bucket must be text, not {type(bucket).__name__}")
        longest = _MAX_STREAM - len(self.stream_prefix)
        if len(bucket) > longest:
            raise InvalidBucketNameError(f"bucket name has {len(bucket)} characters; at most {longest} are allowed")
        if not _BUCKET.fullmatch(bucket):
            raise InvalidBucketNameError(f"bucket name {bucket!r} must be made of letters, digits, _ and -")
        return self.stream_prefix + bucket

    def bucket_of(self, stream: str) -> str | None:
        """Return the name of the bucket of a stream, None if the stream's name is not that of a bucket."""
        name = stream.removeprefix(self.stream_prefix)
        return name if name != stream and _BUCKET.fullmatch(name) else None

    def subjects_of(self, bucket: str) -> str:
        """Return the part that all subjects of a bucket begin with."""
        return f"{self.subject_prefix}{bucket}."

    def origin_of(self, bucket: str, mirror: StreamSource | None) -> str:
        """Return the name of the bucket whose subjects a bucket stores: a mirror keeps those of its origin."""
        return bucket if mirror is None else mirror.name.removeprefix(self.stream_prefix)

    def source(self, source: StreamSource, bucket: str) -> StreamSource:
        """Return a source whose subjects become those of `bucket`; one with transforms of its own is not changed."""
        if source.subject_transforms:
            return source
        named = self.mirror(source)
        origin = self.subjects_of(named.name.removeprefix(self.stream_prefix))
        transform = SubjectTransform(src=f"{origin}>", dest=f"{self.subjects_of(bucket)}>")
        return named.replace(subject_transforms=[transform])

    def mirror(self, source: StreamSource) -> StreamSource:
        """Return a source with the name of its stream."""
        named = source.name.startswith(self.stream_prefix)
        return source if named else source.replace(name=self.stream_prefix + source.name)


KEY_VALUE: Final = BucketKind("KV_", "$KV.")
"""Buckets of keys and values (ADR-8)."""
OBJECTS: Final = BucketKind("OBJ_", "$O.")
"""Buckets of objects (ADR-20)."""


class BucketConfig(Protocol):
    """The fields that the configurations of all buckets have."""

    bucket: str
    description: str | None
    ttl: DurationField | None
    max_bytes: int | None
    storage: StorageType | None
    replicas: int | None
    placement: Placement | None
    compression: bool | None
    metadata: dict[str, str] | None
    mirror: StreamSource | None
    sources: list[StreamSource] | None


def new_stream(kind: BucketKind, bucket: str) -> StreamConfig:
    """Return the configuration of the stream of a bucket without options, and without subjects."""
    return StreamConfig(
        name=kind.stream_of(bucket),
        max_msgs=-1,
        max_bytes=-1,
        max_msg_size=-1,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=_DUPLICATE_WINDOW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        compression=StoreCompression.NONE,
    )


def check_fields(kind: BucketKind, config: BucketConfig) -> None:
    """Check the fields that the configurations of all buckets have.

    Raises
    ------
    InvalidBucketNameError, ConfigError
        The configuration is not valid.
    """
    kind.stream_of(config.bucket)
    if config.ttl is not None and config.ttl < _NO_TIME:
        raise ConfigError(f"ttl must not be negative: {config.ttl}")
    if config.mirror is not None and config.sources:
        raise ConfigError("a bucket has a mirror or sources, not both")


def changed_fields(kind: BucketKind, config: BucketConfig) -> dict[str, object]:
    """Return the fields of a stream that the common fields of its bucket's configuration set."""
    changes: dict[str, object] = {
        "description": config.description,
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "metadata": config.metadata,
    }
    if config.compression is not None:
        changes["compression"] = StoreCompression.S2 if config.compression else StoreCompression.NONE
    if config.ttl is not None:  # the server refuses a window above the age limit
        changes["max_age"] = config.ttl
        changes["duplicate_window"] = min(config.ttl, _DUPLICATE_WINDOW) if config.ttl else _DUPLICATE_WINDOW
    if config.mirror is not None:
        changes["mirror"] = kind.mirror(config.mirror)
        changes["mirror_direct"] = True
    if config.sources is not None:
        changes["sources"] = [kind.source(each, config.bucket) for each in config.sources]
    return {name: value for name, value in changes.items() if value is not None}


@dataclass(frozen=True, slots=True)
class BucketStatus:
    """The state of a bucket, as the server reported it."""

    bucket: str
    """Name of the bucket."""
    stream_info: StreamInfo
    """Configuration and state of its stream."""

    @property
    def config(self) -> StreamConfig:
        """Configuration of its stream."""
        return self.stream_info.config

    @property
    def ttl(self) -> timedelta:
        """Time after which what it stores expires, zero for never."""
        return self.config.max_age or _NO_TIME

    @property
    def is_compressed(self) -> bool:
        """Whether the store is compressed."""
        return self.config.compression not in {None, StoreCompression.NONE}

    @property
    def backing_store(self) -> StorageType:
        """Where the bucket is stored."""
        return self.config.storage or StorageType.FILE

    @property
    def metadata(self) -> dict[str, str]:
        """Free texts by key; those of the server begin with `_nats.`."""
        return self.config.metadata or {}
