"""Reads with `payloadFormat`: columns that are decoded from the payloads, next to columns of messages or entries.

The schema names both. A column with the name of a column of messages (after the prefix of the options) is that
column. Every other one is a field of the payload. Only these fields are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.modes import ParseMode
from jetspark.payload.required import RequiredFields
from jetspark.payload.rows import DecodeOptions, RowDecoder
from jetspark.spark.options.payload import PayloadOptions
from jetspark.spark.read.bad_records import BadRecords
from jetspark.spark.read.dead_letters import ReadDeadLetters
from jetspark.spark.schema import check_arrow_types, conform, is_one_of, same_type
from jetspark.spark.time_zone import session_time_zone

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.payload.formats import BadRecord, PayloadFormat
    from jetspark.spark.streams.buckets import EntrySelection

__all__ = ["TypedConversion", "TypedRows", "plan_typed_rows"]

_OF_MESSAGES: Final = {"subject": "subject", "sequence": "sequence", "data": "data"}
_OF_ENTRIES: Final = {"subject": "key", "sequence": "revision", "data": "value", "headers": "headers"}
"""Columns that describe a bad record, and what they are called in the rows of a read."""


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The columns of a read with `payloadFormat`.

    Attributes
    ----------
    schema
        Exact Arrow schema that Spark expects.
    kept
        Columns of messages or entries that are in it, by their own names.
    order
        For each column of the schema its place in: the kept columns, the fields, the column for bad records.
    format
        The format, with the fields of the payload.
    corrupt
        The column for the text of bad records; None if the schema has none.
    native_columns
        Columns of messages with their native type, in lower case. Filters on these columns can be pushed down.
    payload
        Options of the payloads.
    """

    schema: pa.Schema
    kept: tuple[str, ...]
    order: tuple[int, ...]
    format: PayloadFormat
    corrupt: pa.Field | None
    native_columns: frozenset[str]
    payload: PayloadOptions

    def conversion(
        self, place: str, selection: EntrySelection | None, letters: ReadDeadLetters | None = None
    ) -> TypedConversion:
        """Return the conversion of the messages of a partition; `selection` is None for messages of a stream."""
        return TypedConversion(self, place, selection, letters)


class TypedConversion:
    """The conversion of the messages of one partition. Created in the task.

    Attributes
    ----------
    columns
        Columns of messages that it needs.
    bad
        The bad records.
    """

    def __init__(
        self, rows: TypedRows, place: str, selection: EntrySelection | None, letters: ReadDeadLetters | None
    ) -> None:
        import pyarrow as pa

        from jetspark.bulk.columns import scan_schema
        from jetspark.bulk.key_value_columns import EntryColumns

        payload = rows.payload
        self.bad = BadRecords(payload, place, letters)
        self._rows = rows
        self._record_columns = dict(_OF_MESSAGES if selection is None else _OF_ENTRIES)
        if letters is not None:
            self._record_columns["headers"] = "headers"
        self._prefix = "" if selection is None else selection.prefix
        needed = tuple(dict.fromkeys([*rows.kept, *self._record_columns.values()]))
        self.columns: tuple[str, ...] = needed
        self._entries: EntryColumns | None = None
        if selection is not None:
            self._entries = EntryColumns(selection.prefix, needed, selection.include_deletes, "us")
            self.columns = self._entries.message_columns
        schema = scan_schema(needed) if self._entries is None else self._entries.schema
        options = DecodeOptions(
            payload.in_time_zone(rows.format, session_time_zone()), payload.mode, payload.prefix, rows.corrupt
        )
        kept = pa.schema([schema.field(name) for name in rows.kept])
        self._decoder = RowDecoder(options, kept, payload=self._record_columns["data"], where=place)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows.

        Raises
        ------
        PayloadError
            A payload cannot be decoded, and the mode is FAILFAST.
        """
        messages = batch if self._entries is None else self._entries.convert(batch)
        decoded = self._decoder.decode(messages)
        if decoded.bad:
            self.bad.add(self._records(messages, decoded.bad), [record.reason for record in decoded.bad])
        return conform(decoded.rows.select(list(self._rows.order)), self._rows.schema)

    def _records(self, messages: pa.RecordBatch, bad: Sequence[BadRecord]) -> pa.RecordBatch:
        """Return the messages of bad records."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = messages.take(pa.array([record.row for record in bad], pa.int64()))
        columns = {name: found.column(ours) for name, ours in self._record_columns.items()}
        if self._prefix:
            columns["subject"] = pc.binary_join_element_wise(self._prefix, columns["subject"], "")
        return pa.RecordBatch.from_pydict(columns)


def plan_typed_rows(
    schema: StructType,
    payload: PayloadOptions,
    types: Mapping[str, tuple[DataType, ...]],
    *,
    null_payloads: bool = False,
) -> TypedRows:
    """Check the schema of a read with `payloadFormat`.

    Parameters
    ----------
    schema
        Schema of the read.
    types
        Types of the columns of messages or entries, the native one first.
    null_payloads
        Whether the read returns deleted keys, which have no payload.

    Raises
    ------
    ConfigError
        The format cannot give a field, no column is a field, a column has the name of a column of messages and another
        type, or a column is NOT NULL whose rows may be null.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = _sort_columns(schema, payload, types)
    if not columns.fields:
        raise ConfigError(
            f"no column of the schema is a field of the payload: {', '.join(schema.names) or 'it is empty'}; name "
            "fields, or leave out option payloadFormat"
        )
    for field in columns.fields:
        _check_null(field, payload.mode, null_payloads=null_payloads)
    content = columns.kept.get("value")
    if null_payloads and content is not None and not content.nullable:
        raise _null_of_deletes(content.name)
    fields = StructType([StructField(field.name, field.dataType) for field in columns.fields])
    check_arrow_types(fields)
    decoded = payload.make_format(to_arrow_schema(fields, timezone="UTC"))
    required = tuple(field.name for field in columns.fields if not field.nullable)
    exact = to_arrow_schema(schema, timezone="UTC")
    corrupt = columns.corrupt
    layout = [*columns.kept.values(), *columns.fields, *([] if corrupt is None else [corrupt])]
    return TypedRows(
        schema=exact,
        kept=tuple(columns.kept),
        order=tuple(layout.index(field) for field in schema),
        format=RequiredFields(decoded, required) if required else decoded,
        corrupt=None if corrupt is None else exact.field(corrupt.name),
        native_columns=frozenset(
            field.name.lower() for name, field in columns.kept.items() if same_type(field.dataType, types[name][0])
        ),
        payload=payload,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a schema: those of messages by their own names, the fields, and the one for bad records."""

    kept: dict[str, StructField]
    fields: list[StructField]
    corrupt: StructField | None


def _sort_columns(schema: StructType, payload: PayloadOptions, types: Mapping[str, tuple[DataType, ...]]) -> _Columns:
    columns = _Columns({}, [], None)
    seen = set()
    for field in schema:
        if field.name.lower() in seen:
            raise ConfigError(f"the schema has the column {field.name} twice{payload.rename_hint(field.name, types)}")
        seen.add(field.name.lower())
        name = payload.message_column(field.name)
        if name is not None and name in types:
            if not is_one_of(field.dataType, types[name]):
                wanted = " or ".join(each.simpleString() for each in types[name])
                raise ConfigError(
                    f"column {field.name} {field.dataType.simpleString()} has the name of a column of messages, which "
                    f"can only be read as {wanted}{payload.rename_hint(field.name, types)}"
                )
            columns.kept[name] = field
        elif field.name == payload.corrupt_column:
            if not is_one_of(field.dataType, (StringType(), BinaryType())) or not field.nullable:
                raise ConfigError(
                    f"column {field.name} is for payloads that cannot be decoded (option columnNameOfCorruptRecord); "
                    f"it must be string or binary, and nullable; it is {field.dataType.simpleString()}"
                    f"{'' if field.nullable else ' NOT NULL'}"
                )
            columns = _Columns(columns.kept, columns.fields, field)
        else:
            columns.fields.append(field)
    return columns


def _check_null(field: StructField, mode: ParseMode, *, null_payloads: bool) -> None:
    """Check that a field can be NOT NULL where the schema says so."""
    inner = _required_part(field.dataType, field.name)
    if inner is not None:
        raise ConfigError(
            f"{inner} is NOT NULL in the schema; only a whole column of a payload can be NOT NULL: declare what is "
            "inside of arrays, maps and structs nullable"
        )
    if field.nullable:
        return
    if mode is ParseMode.PERMISSIVE:
        raise ConfigError(
            f"column {field.name} is NOT NULL in the schema, but mode PERMISSIVE keeps payloads without it, with null; "
            "declare it nullable, or set option mode to FAILFAST or DROPMALFORMED"
        )
    if null_payloads:
        raise _null_of_deletes(field.name)


def _null_of_deletes(name: str) -> ConfigError:
    return ConfigError(
        f"column {name} is NOT NULL in the schema, but it is null in rows of deleted keys; declare it nullable, or set "
        "option includeDeletes = false"
    )


def _required_part(kind: DataType, place: str) -> str | None:
    """Return the place of a part of a type that may not be null; None if there is none."""
    if isinstance(kind, ArrayType):
        inner = f"{place}.element"
        return _required_part(kind.elementType, inner) if kind.containsNull else inner
    if isinstance(kind, MapType):
        inner = f"{place}.value"
        return _required_part(kind.valueType, inner) if kind.valueContainsNull else inner
    if isinstance(kind, StructType):
        for field in kind:
            inner = f"{place}.{field.name}"
            found = _required_part(field.dataType, inner) if field.nullable else inner
            if found is not None:
                return found
    return None
