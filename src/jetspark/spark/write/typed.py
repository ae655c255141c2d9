"""Writes with `payloadFormat`: columns that are no columns of messages become the payload of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import DataType, LongType, StructField, StructType, TimestampType

from jetspark.jetstream.errors import ConfigError, PayloadError
from jetspark.payload.formats import PayloadFormat
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.options.payload import PayloadOptions
from jetspark.spark.schema import (
    READABLE_TYPES,
    WRITABLE_TYPES,
    WriteColumns,
    check_arrow_types,
    is_one_of,
    with_subject,
)
from jetspark.spark.time_zone import session_time_zone
from jetspark.spark.write.bucket_rows import ENTRY_WRITABLE_TYPES, check_entry_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedColumns", "TypedWriteColumns", "typed_write_columns"]

_PUT: Final = "PUT"
_ENTRY_READABLE_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "revision": (LongType(),),
    "created": (TimestampType(),),
}


@dataclass(frozen=True, slots=True)
class EncodedColumns:
    """The columns that become the payload.

    Attributes
    ----------
    positions
        Their positions in Spark's record batches.
    format
        The format, with these columns.
    payload
        Options of the payloads.
    content
        Column that the payload becomes: `data` or `value`.
    operation
        Position of the column `operation` of a write into a bucket; None if there is none.
    ignored
        Columns of a read that describe the place of a message. They are not written.
    """

    positions: tuple[int, ...]
    format: PayloadFormat
    payload: PayloadOptions
    content: str
    operation: int | None = None
    ignored: tuple[str, ...] = ()

    def for_task(self) -> PayloadFormat:
        """Return the format for the time zone of the session."""
        return self.payload.in_time_zone(self.format, session_time_zone(), to_encode=True)

    def encode(self, encoder: PayloadFormat, batch: pa.RecordBatch, first: int) -> pa.BinaryArray:
        """Return the payloads of a record batch. Rows that delete a key of a bucket have none.

        Parameters
        ----------
        encoder
            Result of `for_task`.
        batch
            Rows of Spark.
        first
            Number of the first row, for errors.

        Raises
        ------
        PayloadError
            A row cannot be encoded.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = encoder.schema
        arrays = [_as_type(batch.column(at), field.type) for at, field in zip(self.positions, schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        puts = None
        if self.operation is not None:
            operation = batch.column(self.operation).cast(pa.string())
            puts = pc.fill_null(pc.equal(operation, _PUT), True)
            rows = rows.filter(puts)
        try:
            payloads = encoder.encode(rows)
        except PayloadError as error:
            if not first:
                raise
            raise PayloadError(f"rows of a task, counted from row {first} on: {error}") from None
        if puts is None or len(payloads) == len(batch):
            return payloads
        places = pc.if_else(puts, pc.subtract(pc.cumulative_sum(puts.cast(pa.int64())), 1), None)
        return payloads.take(places)

    def encode_storable(
        self, encoder: PayloadFormat, batch: pa.RecordBatch, first: int
    ) -> tuple[pa.BinaryArray, pa.StringArray | None]:
        """Return the payloads of a record batch, and for each row that cannot be encoded the reason.

        The payload of such a row is its columns as JSON. Without such rows, there are no reasons. See `encode`.
        """
        import pyarrow as pa

        from jetspark.bulk.dead_letters import row_as_json, split_rows

        def encode(rows: pa.RecordBatch, at: int) -> pa.BinaryArray:
            return self.encode(encoder, rows, first + at)

        places, bad = split_rows(batch, encode)
        if not bad:
            return encode(batch, 0), None
        good = batch.take(pa.array(places, pa.int64()))
        found = dict(zip(places, encode(good, 0).to_pylist() if len(good) else [], strict=True))
        fields = pa.RecordBatch.from_arrays([batch.column(at) for at in self.positions], encoder.schema.names)
        reasons: list[str | None] = [None] * len(batch)
        for row, error in bad:
            reasons[row] = str(error)
            found[row] = row_as_json(fields, row)
        payloads = [found[row] for row in range(len(batch))]
        return pa.array(payloads, pa.binary()), pa.array(reasons, pa.string())

    def ignored_warning(self) -> str | None:
        """Return the warning about columns that are not written; None if there are none."""
        if not self.ignored:
            return None
        return (
            f"columns {', '.join(self.ignored)} have the names of columns of messages, and are not written; if they "
            'are fields of the payload, set option metadataPrefix, such as "_"'
        )


@dataclass(frozen=True, slots=True)
class TypedWriteColumns(WriteColumns):
    """The columns of a write with `payloadFormat`.

    Attributes
    ----------
    encoded
        The columns that become the payload.
    """

    encoded: EncodedColumns | None = None


def typed_write_columns(schema: StructType, options: WriteOptions, payload: PayloadOptions) -> TypedWriteColumns:
    """Check the schema of a write with `payloadFormat`.

    Raises
    ------
    ConfigError
        A required column is missing, a column has the wrong type, or the format cannot take a field.
    """
    if options.bucket is None:
        positions, encoded = _sort_columns(schema, payload, WRITABLE_TYPES, READABLE_TYPES, "data")
        return TypedWriteColumns(with_subject(positions, options.subject, schema), encoded=encoded)
    positions, encoded = _sort_columns(schema, payload, ENTRY_WRITABLE_TYPES, _ENTRY_READABLE_TYPES, "value")
    check_entry_columns(positions, schema)
    return TypedWriteColumns(positions, encoded=encoded)


def _sort_columns(
    schema: StructType,
    payload: PayloadOptions,
    writable: Mapping[str, tuple[DataType, ...]],
    readable: Mapping[str, tuple[DataType, ...]],
    content: str,
) -> tuple[dict[str, int], EncodedColumns]:
    """Divide the columns of a write into those of messages and the fields of the payload.

    Parameters
    ----------
    schema
        Schema of the rows.
    payload
        Options of the payloads.
    writable, readable
        Types of the columns of messages or entries, for a write and for a read.
    content
        Column of the payload: `data` or `value`.

    Returns
    -------
    tuple[dict[str, int], EncodedColumns]
        Positions of the columns of messages by their own names, and the other columns.

    Raises
    ------
    ConfigError
        The rows have a payload already, or no field; a column is there twice; or a column has the name of a column of
        messages and another type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    positions: dict[str, int] = {}
    ignored: list[str] = []
    fields: dict[int, StructField] = {}
    for at, field in enumerate(schema):
        name = payload.message_column(field.name)
        if name == content:
            raise ConfigError(
                f"column {field.name} and option payloadFormat = {payload.format} contradict each other: both give the "
                f"payload; drop the column{payload.rename_hint(field.name, writable)}"
            )
        types = writable.get(name or "") or readable.get(name or "")
        if name is None or types is None:
            fields[at] = StructField(field.name, field.dataType)
            continue
        if not is_one_of(field.dataType, types):
            wanted = " or ".join(each.simpleString() for each in types)
            raise ConfigError(
                f"column {field.name} {field.dataType.simpleString()} has the name of a column of messages, which can "
                f"only be {wanted}{payload.rename_hint(field.name, {**writable, **readable})}"
            )
        if name in positions:
            raise ConfigError(f"the rows have the column {name} twice; keep one of them")
        if name in writable:
            positions[name] = at
        else:
            ignored.append(field.name)
    if not fields:
        raise ConfigError(
            f"no column of the rows is a field of the payload: {', '.join(schema.names) or 'there is none'}; add "
            f"fields, or leave out option payloadFormat and give the column {content}"
        )
    kinds = StructType(list(fields.values()))
    check_arrow_types(kinds)
    encoder = payload.make_format(to_arrow_schema(kinds, timezone="UTC"), to_encode=True)
    operation = positions.get("operation")
    return positions, EncodedColumns(tuple(fields), encoder, payload, content, operation, tuple(ignored))


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of Spark with another time zone, or with offsets of another width."""
    return column if column.type.equals(kind) else column.cast(kind)
