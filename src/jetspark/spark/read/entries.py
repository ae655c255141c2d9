"""The columns of a read of a bucket: allowed schemas, and the conversion of messages to entries in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.message_columns import find_entry_column
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.dead_letters import ReadDeadLetters
from jetspark.spark.read.typed import TypedConversion, TypedRows, plan_typed_rows
from jetspark.spark.schema import (
    HEADERS,
    HEADERS_TYPE,
    READABLE_TYPES,
    Projection,
    check_columns,
    conform,
    plan_projection,
)
from jetspark.spark.streams.buckets import EntrySelection

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk.key_value_columns import EntryColumns

__all__ = [
    "MESSAGE_COLUMNS",
    "EntryProjection",
    "PlannedRows",
    "RowConversion",
    "conversion_of",
    "entry_schema",
    "log_bad_records",
    "plan_rows",
]

MESSAGE_COLUMNS: Final = {"key": "subject", "revision": "sequence", "created": "timestamp"}
"""Columns of entries whose content the server can select by, and the columns of messages that they are."""

_TEXT: Final = StringType()
_VALUE: Final = "value"
_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "key": (_TEXT,),
    _VALUE: (BinaryType(), _TEXT),
    "revision": (LongType(),),
    "created": (TimestampType(),),
    "operation": (_TEXT,),
    HEADERS: (HEADERS_TYPE,),
}


PlannedRows: TypeAlias = "Projection | EntryProjection | TypedRows"
"""The columns of a read."""


class RowConversion(Protocol):
    """The conversion of the record batches of a scan to the rows of a read."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of messages that it needs."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows."""


def entry_schema(include_headers: bool) -> StructType:
    """Return the schema of a read of a bucket; `headers` only if requested."""
    return StructType(
        [StructField(name, types[0]) for name, types in _TYPES.items() if include_headers or name != HEADERS]
    )


@dataclass(frozen=True, slots=True)
class EntryProjection:
    """The columns of a read of a bucket.

    Attributes
    ----------
    names
        Names of the columns of entries, in the order of the schema.
    schema
        Exact Arrow schema that Spark expects.
    native_columns
        Names of the columns with their native type. Filters on these columns can be pushed down.
    """

    names: tuple[str, ...]
    schema: pa.Schema
    native_columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The conversion of the messages of one selection."""

    projection: EntryProjection
    selection: EntrySelection

    @property
    def columns(self) -> tuple[str, ...]:
        return self._entries.message_columns

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return conform(self._entries.convert(batch), self.projection.schema)

    @property
    def _entries(self) -> EntryColumns:
        from jetspark.bulk.key_value_columns import EntryColumns

        return EntryColumns(self.selection.prefix, self.projection.names, self.selection.include_deletes, "us")


def plan_rows(schema: StructType, options: ReadOptions) -> PlannedRows:
    """Check the schema of a read, the default or the user's own.

    Raises
    ------
    ConfigError
        A column does not exist or is there twice, or cannot be read as the given type; or `value` may not be null, and
        the read returns deletes.
    """
    if options.payload is not None:
        if options.bucket is None:
            return plan_typed_rows(schema, options.payload, READABLE_TYPES)
        return plan_typed_rows(schema, options.payload, _TYPES, null_payloads=options.bucket.include_deletes)
    if options.bucket is None:
        return plan_projection(schema)
    names, native, arrow = check_columns(
        schema, _TYPES, lambda name: find_entry_column(name, "read", any_case=True), "entries"
    )
    if options.bucket.include_deletes and _VALUE in names and not schema[names.index(_VALUE)].nullable:
        raise ConfigError(
            "column value is NOT NULL in the schema, but it is null in rows of deleted keys; declare it nullable, or "
            "set option includeDeletes = false"
        )
    return EntryProjection(names, arrow, native)


def log_bad_records(conversion: RowConversion) -> None:
    """Log the number of payloads that could not be decoded, at the end of a partition."""
    if isinstance(conversion, TypedConversion):
        conversion.bad.log()


def conversion_of(
    rows: PlannedRows, stream: str, selection: EntrySelection | None, letters: ReadDeadLetters | None = None
) -> RowConversion:
    """Return the conversion for the messages of a partition.

    `selection` is None for messages of a stream. `letters` publishes those that cannot be decoded.
    """
    if isinstance(rows, TypedRows):
        return rows.conversion(f"stream {stream}", selection, letters)
    if isinstance(rows, Projection):
        return rows
    assert selection is not None
    return _Entries(rows, selection)
