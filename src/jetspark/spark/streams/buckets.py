"""Buckets as the source reads them: the stream of a bucket, and the subjects of its keys.

A mirror stores the subjects of its origin, so the subjects are known only when the server has described the bucket.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jetspark.jetstream import StreamConfig, StreamInfo
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.errors import BucketNotFoundError, ConfigError, StreamNotFoundError
from jetspark.jetstream.key_value.config import check_stream
from jetspark.jetstream.key_value.names import key_subjects
from jetspark.jetstream.object_store.config import check_stream as check_object_stream
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.options.bucket import BucketOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["EntrySelection", "history_of", "request_info", "select_entries", "warn_of_silent_expiry"]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """The entries of a bucket that a task reads.

    Attributes
    ----------
    prefix
        The subject of an entry, up to its key.
    subjects
        Subject filters that the server applies; empty for all messages of the stream.
    include_deletes
        Whether markers of deleted, purged and expired keys are rows.
    """

    prefix: str
    subjects: tuple[str, ...]
    include_deletes: bool


def request_info(connection: Connection, options: ReadOptions, stream: str) -> StreamInfo:
    """Request the state of a stream.

    Raises
    ------
    BucketNotFoundError, BadBucketError
        The options name a bucket or an object store, and there is none, or the stream is none.
    StreamNotFoundError, APIError, ...
        The server refuses the request.
    """
    store = options.bucket or options.objects
    try:
        info = options.server.request(connection, StreamInfoRequest(stream))
    except StreamNotFoundError:
        if store is None:
            raise
        raise BucketNotFoundError(store.name) from None
    if store is not None:
        (check_stream if store is options.bucket else check_object_stream)(info.config)
    return info


def select_entries(
    info: StreamInfo, options: ReadOptions, keys: tuple[str, ...] | None = None
) -> EntrySelection | None:
    """Return the entries to read of a stream; None if the options do not name a bucket.

    Parameters
    ----------
    info
        Result of `request_info`.
    options
        Options of the read.
    keys
        Filters of keys; None takes those of the options.
    """
    bucket, config = options.bucket, info.config
    if bucket is None:
        return None
    prefix, _ = key_subjects(bucket.name, config.mirror, options.server.api_prefix)
    everything = prefix + ">"
    filters = tuple(prefix + key for key in (bucket.keys if keys is None else keys)) or (everything,)
    if filters == (everything,) and config.subjects == [everything] and not config.sources:
        filters = ()  # every message is an entry; the server is faster without a filter
    return EntrySelection(prefix, filters, bucket.include_deletes)


def history_of(info: StreamInfo) -> int:
    """Return the number of revisions that a bucket keeps of each key.

    Raises
    ------
    ConfigError
        A query cannot begin with a snapshot of this bucket: it keeps several revisions, and does not allow direct get.
    """
    history = info.config.max_msgs_per_subject or 1
    if history > 1 and not info.config.allow_direct:
        raise ConfigError(
            f"stream {info.config.name!r}: option initialSnapshot needs allow_direct, because the bucket keeps "
            f"{history} revisions of a key"
        )
    return history


def _expires_silently(config: StreamConfig) -> bool:
    """Whether values of a bucket expire without a marker, so that no row says so."""
    if config.subject_delete_marker_ttl:
        return False
    # A mirror copies the markers of its origin, but makes none for the messages that its own limit removes.
    return bool(config.max_age) or (bool(config.allow_msg_ttl) and config.mirror is None)


def warn_of_silent_expiry(infos: Mapping[str, StreamInfo], bucket: BucketOptions | None) -> None:
    """Warn if values of a bucket expire without a marker, and the rows of deleted keys are read."""
    if bucket is None or not bucket.include_deletes:
        return
    for stream, info in infos.items():
        if _expires_silently(info.config):
            _log.warning(
                "bucket %s (stream %s): values expire without a marker, so no row says that a key has expired; set "
                "limit_marker_ttl of the bucket",
                bucket.name,
                stream,
            )
