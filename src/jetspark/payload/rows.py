"""From record batches of messages to rows: decoded fields next to the wanted columns of the messages. No I/O.

`RowDecoder` is used by every read that decodes: `bulk.scan`, `bulk.fetch`, `bulk.last_per_subject`, the reads of
buckets, both fronts, and the tasks of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.formats import BadRecord, Decoded, PayloadFormat
from jetspark.payload.modes import ParseMode, check_fail_fast, kept_rows
from jetspark.wire.checked_fields import ChecksFields

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DecodeOptions", "DecodedRows", "RowDecoder"]

_PLACE: Final = ("sequence", "revision", "subject", "key")
"""Columns by which an error names a message or an entry, if they are there."""


@dataclass(frozen=True)
class DecodeOptions(ChecksFields):
    """How a read turns payloads into columns.

        orders = payload.DecodeOptions(payload.text_format("line"), metadata_prefix="_")
        bulk.scan(connection, "ORDERS", columns=["sequence", "data"], decode=orders)

    Parameters
    ----------
    format
        The format of the payloads, with the columns to decode.
    mode
        Treatment of payloads that cannot be decoded: `PERMISSIVE` keeps the row with null where nothing could be
        read, `DROPMALFORMED` leaves the row out, `FAILFAST` fails the read with a PayloadError.
    metadata_prefix
        Prefix of the names of all columns that are not decoded, such as `_` for `_subject` and `_sequence`.
    corrupt_record_column
        Name of one more column, a string, which has the payload of a row that could not be decoded, and null in other
        rows. A `pa.Field` names the column and may give it the type binary.

    Raises
    ------
    ConfigError
        There is no such mode, or the column for bad records is neither string nor binary.
    """

    format: PayloadFormat
    mode: ParseMode | str = ParseMode.PERMISSIVE
    metadata_prefix: str = ""
    corrupt_record_column: str | pa.Field | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        mode = self.mode
        if isinstance(mode, str):
            if mode.upper() not in ParseMode.__members__:
                raise ConfigError(f"mode must be one of {', '.join(ParseMode.__members__)}, not {mode[:100]!r}")
            object.__setattr__(self, "mode", ParseMode[mode.upper()])
        if self.corrupt_record_column is not None:
            import pyarrow as pa

            field = self.corrupt_field
            if field is None or field.type not in {pa.string(), pa.binary()}:
                raise ConfigError(f"corrupt_record_column is a string or binary, not {field}")

    @property
    def corrupt_field(self) -> pa.Field | None:
        """The column for the payloads of bad records."""
        import pyarrow as pa

        column = self.corrupt_record_column
        return pa.field(column, pa.string()) if isinstance(column, str) else column

    @classmethod
    def of(cls, decode: PayloadFormat | DecodeOptions) -> DecodeOptions:
        """Return the options of the parameter `decode`, which may be a format alone."""
        return decode if isinstance(decode, DecodeOptions) else cls(decode)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """The rows of a record batch of messages.

    Attributes
    ----------
    rows
        With the schema of the decoder; fewer than there were messages, with mode DROPMALFORMED.
    bad
        The bad records; their numbers of rows are those of the messages.
    """

    rows: pa.RecordBatch
    bad: Sequence[BadRecord]


class RowDecoder:
    """Record batches of messages (or of entries of a bucket) become rows. It is picklable and has no state.

    Parameters
    ----------
    options
        Format, mode, prefix, column for bad records.
    kept
        Columns of the messages that stay, by their own names. May be empty.
    fields_at
        Place of the decoded fields among them; None means at the end.
    payload
        Column with the payloads. It may also be one of `kept`.
    where
        Name of the stream or the bucket, for errors.

    Raises
    ------
    ConfigError
        Two columns would have the same name.
    """

    def __init__(
        self,
        options: DecodeOptions,
        kept: pa.Schema,
        *,
        fields_at: int | None = None,
        payload: str = "data",
        where: str = "",
    ) -> None:
        self._options = options
        self._kept = kept
        self._fields_at = len(kept) if fields_at is None else fields_at
        self._payload = payload
        self._where = where
        self._check_names()

    @classmethod
    def for_columns(
        cls, decode: PayloadFormat | DecodeOptions, columns: pa.Schema, payload: str = "data", where: str = ""
    ) -> RowDecoder:
        """Return a decoder that puts the fields in the place of the column with the payloads.

        Raises
        ------
        ConfigError
            The columns do not have the payloads, or two columns would have the same name.
        """
        at = columns.get_field_index(payload)
        if at < 0:
            raise ConfigError(f"decode needs the column {payload}; add it to columns, or leave out decode")
        return cls(DecodeOptions.of(decode), columns.remove(at), fields_at=at, payload=payload, where=where)

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of the rows: kept columns and fields, at the end the one for bad records."""
        import pyarrow as pa

        kept = [field.with_name(f"{self._options.metadata_prefix}{field.name}") for field in self._kept]
        kept[self._fields_at : self._fields_at] = list(self._options.format.schema)
        corrupt = self._options.corrupt_field
        return pa.schema(kept if corrupt is None else [*kept, corrupt])

    @property
    def message_columns(self) -> tuple[str, ...]:
        """Columns that the messages must have; they may have others."""
        return tuple(dict.fromkeys([*self._kept.names, self._payload]))

    @property
    def fails_fast(self) -> bool:
        """Whether a bad record is an error. It names the sequence if the messages have that column."""
        return self._options.mode is ParseMode.FAILFAST

    def decode(self, messages: pa.RecordBatch) -> DecodedRows:
        """Return the rows of messages.

        Raises
        ------
        PayloadError
            There is a bad record, and the mode is FAILFAST.
        """
        import pyarrow as pa

        payloads = messages.column(self._payload)
        decoded = self._options.format.decode(payloads)
        if self.fails_fast:
            check_fail_fast(decoded, lambda row: self._place(messages, row))
        columns = [messages.column(name) for name in self._kept.names]
        columns[self._fields_at : self._fields_at] = decoded.rows.columns
        corrupt = self._options.corrupt_field
        if corrupt is not None:
            columns.append(_corrupt_records(payloads, decoded, corrupt.type))
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if decoded.bad and self._options.mode is ParseMode.DROPMALFORMED:
            rows = rows.filter(pa.array(kept_rows(decoded)))
        return DecodedRows(rows, decoded.bad)

    def _check_names(self) -> None:
        names = self.schema.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is None:
            return
        corrupt = self._options.corrupt_field
        if corrupt is not None and corrupt.name == twice:
            raise ConfigError(f"corrupt_record_column is {twice!r}, and another column has this name; choose another")
        raise ConfigError(
            f"the payload has a field {twice!r}, and so have the messages; read fewer columns of the messages, or "
            'rename these: metadata_prefix="_" (Spark: option metadataPrefix)'
        )

    def _place(self, messages: pa.RecordBatch, row: int) -> str:
        names = [name for name in _PLACE if name in messages.schema.names]
        found = [f"{name} {messages.column(name)[row].as_py()}" for name in names] or [f"row {row}"]
        return ", ".join(filter(None, [self._where, *found]))


def _corrupt_records(payloads: pa.BinaryArray, decoded: Decoded, kind: pa.DataType) -> pa.Array:
    """Return the payloads of the bad records, and null for other rows."""
    import numpy as np
    import pyarrow as pa

    if not decoded.bad:
        return pa.nulls(len(payloads), kind)
    rows = np.array([record.row for record in decoded.bad], np.int64)
    found = payloads.take(pa.array(rows))
    if pa.types.is_string(kind):
        texts = cast("list[bytes]", found.to_pylist())
        found = pa.array([text.decode("utf-8", "replace") for text in texts], kind)
    places = np.zeros(len(payloads), np.int64)
    places[rows] = np.arange(len(rows))
    return found.take(pa.array(places, mask=kept_rows(decoded)))
