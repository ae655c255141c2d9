"""Options that say what is read or written: streams, subjects, buckets, objects."""

from __future__ import annotations

import re
from typing import Final

from jetspark.jetstream.key_value.names import check_filters
from jetspark.spark.options.globs import parse_glob
from jetspark.spark.options.option import NONE, Option, Use
from jetspark.spark.options.stream_pattern import StreamPattern, parse_stream_pattern
from jetspark.spark.options.values import (
    one_of,
    parse_boolean,
    parse_bucket,
    parse_duration,
    parse_object_store,
    parse_size,
    parse_streams,
    parse_subjects,
    parse_text_list,
)

__all__ = [
    "BUCKET",
    "HISTORY",
    "IGNORE_CORRUPT_FILES",
    "IGNORE_MISSING_FILES",
    "INCLUDE_DELETES",
    "KEYS",
    "MAX_OBJECT_SIZE",
    "MAX_PARTITION_BYTES",
    "OBJECTS",
    "PATH_GLOB_FILTER",
    "READ_MODE",
    "RETRY_TIMEOUT",
    "STREAM",
    "STREAM_PATTERN",
    "SUBJECT",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

STREAM: Final = Option[tuple[str, ...]](
    "stream", "list of names", parse_streams, (), "it, `streamPattern`, `bucket` or `objects` must be given",
    "Name of the stream to read, or several names.", Use.READ, "subscribe"
)
STREAM_PATTERN: Final = Option[StreamPattern | None](
    "streamPattern", "glob", parse_stream_pattern, None, NONE,
    "Read all streams whose names match, instead of the option `stream`: `*` any text, `?` one character, `[a-z]`, "
    "`[^a-z]`, `{EU,US}`. A streaming query finds new streams while it runs.", Use.READ, "subscribePattern",
)
SUBJECT: Final = Option[tuple[str, ...]](
    "subject", "list of subjects", parse_subjects, (), "everything",
    "Read: only messages whose subject matches one of these filters (`*` one token, `>` the rest). The server filters. "
    "Write: the subject of all rows, instead of the column `subject`.", kafka_option="topic",
)
BUCKET: Final = Option[str | None](
    "bucket", "name", parse_bucket, None, NONE,
    "Key-value bucket to read or to write, instead of the options `stream` and `subject`.",
)
OBJECTS: Final = Option[str | None](
    "objects", "name", parse_object_store, None, NONE,
    "Object store to read or to write, instead of the options `stream` and `subject`.",
)
MAX_OBJECT_SIZE: Final = Option[int | None](
    "maxObjectSize", "size", parse_size, None, "read: `512m`, write: `64m`",
    "A larger object is an error. A task has the objects of a record batch in memory.",
)
PATH_GLOB_FILTER: Final = Option[re.Pattern[str] | None](
    "pathGlobFilter", "glob", parse_glob, None, NONE,
    "Only objects whose whole name matches: `*` any text, `?` one character, `[a-z]`, `[^a-z]`, `{jpg,png}`.", Use.READ,
)
MAX_PARTITION_BYTES: Final = Option[int](
    "maxPartitionBytes", "size", parse_size, 128 << 20, "128m",
    "Most bytes of the objects of one Spark partition. A larger object has a partition of its own.", Use.READ,
)
IGNORE_CORRUPT_FILES: Final = Option[bool](
    "ignoreCorruptFiles", "true or false", parse_boolean, False, "false",
    "Leave out objects that are damaged, with a warning; otherwise the read fails.", Use.READ,
)
IGNORE_MISSING_FILES: Final = Option[bool](
    "ignoreMissingFiles", "true or false", parse_boolean, False, "false",
    "Leave out objects that were deleted after the read was planned, with a warning; otherwise the read fails.",
    Use.READ,
)
KEYS: Final = Option[tuple[str, ...]](
    "keys", "list of keys", lambda text: check_filters(parse_text_list(text), ""), (), "all keys",
    "Only keys of the bucket that match one of these filters (`*` one token, `>` the rest). The server filters.",
    Use.READ,
)
HISTORY: Final = Option[bool](
    "history", "true or false", parse_boolean, False, "false",
    "A batch read returns every stored revision of the bucket, not only the newest one of each key.", Use.READ,
)
INCLUDE_DELETES: Final = Option[bool | None](
    "includeDeletes", "true or false", parse_boolean, None, "`false`; with `history` and streaming: `true`",
    "Return rows for deleted, purged and expired keys, too; their `value` is null.", Use.READ,
)
READ_MODE: Final = Option[str](
    "readMode", "`all` or `lastPerSubject`", one_of("all", "lastPerSubject"), "all", "`all`",
    "`lastPerSubject`: a batch read returns only the last message of every subject, all at the same moment.", Use.READ,
)
RETRY_TIMEOUT: Final = Option[float](
    "retryTimeout", "duration", parse_duration, 30.0, "30s",
    "How long a task or the planning keeps trying while the server cannot be reached. A write does so only if its rows "
    "have message ids.", kafka_option="fetchOffset.numRetries",
)
# fmt: on
