"""Options of every read: where it begins and ends, its partitions, its columns, its record batches."""

from __future__ import annotations

from typing import Final

from jetspark.spark.options.option import NONE, Option, Use
from jetspark.spark.options.values import (
    Position,
    PositionKind,
    one_of,
    parse_boolean,
    parse_count,
    parse_offsets,
    parse_size,
    parse_time,
    parse_times,
    with_minimum,
)

__all__ = [
    "ARROW_BATCH_BYTES",
    "ARROW_BATCH_ROWS",
    "ENDING_BY_TIMESTAMP",
    "ENDING_OFFSETS",
    "ENDING_TIMESTAMP",
    "FAIL_ON_DATA_LOSS",
    "INCLUDE_HEADERS",
    "MAX_BYTES_IN_FLIGHT",
    "MAX_RECORDS_PER_PARTITION",
    "MIN_PARTITIONS",
    "PUSH_DOWN_PREDICATE",
    "STARTING_BY_TIMESTAMP",
    "STARTING_OFFSETS",
    "STARTING_STRATEGY",
    "STARTING_TIMESTAMP",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

STARTING_OFFSETS: Final = Option[Position | dict[str, Position]](
    "startingOffsets", "`earliest`, `latest` or JSON", parse_offsets, Position(PositionKind.EARLIEST),
    "`earliest`; streaming: `latest`",
    'First sequence to read: `earliest`, `latest` (streaming only), or one for each stream, `{"ORDERS": 17}` (-2 is '
    "earliest, -1 latest). A streaming query that has a checkpoint continues from there.", Use.READ, "startingOffsets",
)
ENDING_OFFSETS: Final = Option[Position | dict[str, Position]](
    "endingOffsets", "`latest` or JSON", parse_offsets, Position(PositionKind.LATEST), "`latest`",
    'End of the read (excluded): `latest`, the end of the stream when the read is planned, or one sequence for each '
    'stream, `{"ORDERS": 42}` (-1 is latest).', Use.READ, "endingOffsets",
)
STARTING_TIMESTAMP: Final = Option[int | None](
    "startingTimestamp", "time", parse_time, None, NONE,
    "Read messages stored at or after this time: milliseconds since 1970, or `2026-03-01T12:00:00Z`. Overrides "
    "`startingOffsetsByTimestamp`, which overrides `startingOffsets`.", Use.READ, "startingTimestamp",
)
ENDING_TIMESTAMP: Final = Option[int | None](
    "endingTimestamp", "time", parse_time, None, NONE,
    "Read messages stored before this time. Overrides `endingOffsetsByTimestamp`, which overrides `endingOffsets`.",
    Use.READ, "endingTimestamp",
)
STARTING_BY_TIMESTAMP: Final = Option[dict[str, int] | None](
    "startingOffsetsByTimestamp", "JSON", parse_times, None, NONE,
    'Start time for each stream: `{"ORDERS": "2026-03-01T12:00:00Z"}`.', Use.READ, "startingOffsetsByTimestamp",
)
STARTING_STRATEGY: Final = Option[str](
    "startingOffsetsByTimestampStrategy", "`error` or `latest`", one_of("error", "latest"), "latest", "`latest`",
    "If a stream has no message at or after its start time. `error`: the read fails. `latest`: it starts at its end.",
    Use.READ, "startingOffsetsByTimestampStrategy",
)
ENDING_BY_TIMESTAMP: Final = Option[dict[str, int] | None](
    "endingOffsetsByTimestamp", "JSON", parse_times, None, NONE, "End time (excluded) for each stream.", Use.READ,
    "endingOffsetsByTimestamp",
)
MIN_PARTITIONS: Final = Option[int | None](
    "minPartitions", "number", parse_count, None, "number of cores, with at least 50,000 sequences each",
    "Minimum number of Spark partitions, divided among the streams in proportion to their sequences to read.",
    Use.READ, "minPartitions",
)
MAX_RECORDS_PER_PARTITION: Final = Option[int | None](
    "maxRecordsPerPartition", "number", parse_count, None, NONE,
    "Maximum number of sequences of one Spark partition.", Use.READ, "maxRecordsPerPartition",
)
PUSH_DOWN_PREDICATE: Final = Option[bool | None](
    "pushDownPredicate", "true or false", parse_boolean, None, "`false` up to Spark 4.3, `true` on later versions",
    "Let the server apply the conditions of a batch read, where it can. Spark needs the setting "
    "`spark.sql.python.filterPushdown.enabled` for that. Up to Spark 4.3, the rows are then wrong if a DataFrame is "
    "used more than once.", Use.READ,
)
INCLUDE_HEADERS: Final = Option[bool](
    "includeHeaders", "true or false", parse_boolean, False, "false",
    "Add the column `headers`. If your own schema has the column, the option is not needed.", Use.READ,
    "includeHeaders",
)
FAIL_ON_DATA_LOSS: Final = Option[bool](
    "failOnDataLoss", "true or false", parse_boolean, True, "true",
    "Fail when requested messages are lost: they expired or were purged, or the stream was deleted and created again. "
    "With `false`, a warning names the lost sequences, and the rest is read.", Use.READ, "failOnDataLoss",
)
ARROW_BATCH_ROWS: Final = Option[int](
    "arrowBatchRows", "number", parse_count, 16_384, "16384", "Maximum number of rows of a record batch for Spark.",
    Use.READ, "kafka.max.poll.records",
)
ARROW_BATCH_BYTES: Final = Option[int](
    "arrowBatchBytes", "size", with_minimum(4096, parse_size), 8 << 20, "8m",
    "Size from which no more rows are added to a record batch.", Use.READ,
)
MAX_BYTES_IN_FLIGHT: Final = Option[int](
    "maxBytesInFlight", "size", with_minimum(4096, parse_size), 8 << 20, "8m",
    "Maximum bytes in flight from the server to one task.", Use.READ, "kafka.fetch.max.bytes",
)
# fmt: on
