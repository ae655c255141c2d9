"""The format CSV: plain records are cut all at once, the others one by one."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.csv.columns import ColumnReader, column_reader
from jetspark.payload.csv.encode import CsvEncoder
from jetspark.payload.csv.options import CsvOptions
from jetspark.payload.csv.records import RecordReader
from jetspark.payload.formats import BadRecord, Decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.options import FormatOptions

__all__ = ["TYPES", "CsvFormat", "create", "create_encoder", "infer_schema"]

TYPES: Final = (
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.bool_(),
    pa.string(),
)
"""Types that fields may be inferred to have, the narrowest first."""

_SHOWN: Final = 50
_LONGEST_FIELD: Final = 100_000
"""Python's reader of CSV takes no field that is much longer."""
_SPACES: Final = "".join(map(chr, range(33)))
_NONE: Final = "\0"


class CsvFormat:
    """CSV records as rows; see `PayloadFormat`."""

    def __init__(self, schema: pa.Schema, options: FormatOptions) -> None:
        self.schema = schema
        self._formats = options
        self._options = CsvOptions.of(options)
        self._records = RecordReader(self._options)
        self._in_order = _pattern_of_records_in_order(self._options)

    def __reduce__(self) -> tuple[Callable[..., CsvFormat], tuple[pa.Schema, FormatOptions]]:
        """Pickle schema and options."""
        return CsvFormat, (self.schema, self._formats)

    @cached_property
    def readers(self) -> list[ColumnReader]:
        """Readers of the columns. Raises ConfigError if CSV cannot give a column."""
        return [column_reader(field, self._options, self._formats) for field in self.schema]

    @cached_property
    def encoder(self) -> CsvEncoder:
        """Encodes rows. Raises ConfigError if CSV has no text for the type of a column."""
        return CsvEncoder(self.schema, self._formats)

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Decode payloads as Spark's from_csv does."""
        texts = _as_text(payloads)
        cells, faults = self._cells(texts)
        arrays = []
        for reader, field, column in zip(self.readers, self.schema, cells, strict=True):
            values, bad = reader.column(column)
            arrays.append(values)
            for row, text in bad.items():
                faults.setdefault(row, f"field {field.name!r}: {text[:_SHOWN]!r} is no {field.type}")
        bad_records = [BadRecord(row, faults[row]) for row in sorted(faults)]
        if not arrays:
            rows = pa.RecordBatch.from_struct_array(pa.array([{}] * len(payloads), pa.struct([])))
            return Decoded(rows, bad_records)
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), bad_records)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Encode rows as Spark's to_csv does."""
        return self.encoder.encode(rows)

    def _cells(self, texts: pa.StringArray) -> tuple[list[pa.StringArray], dict[int, str]]:
        """Return the texts of the columns, null where there is no value, and why rows are bad."""
        width = len(self.schema)
        plain = self._plain_rows(texts)
        others = np.flatnonzero(~plain)
        cut = texts if not len(others) else pc.if_else(pa.array(plain), texts, None)
        lists = pc.split_pattern(cut, self._options.separator)
        counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
        values = self._trimmed(lists.flatten())
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        read = self._read(texts.take(pa.array(others))) if len(others) else []
        firsts = np.concatenate([[0], np.cumsum(counts)])[:-1]
        if read:
            lengths = np.array([len(fields or ()) for fields in read], np.int64)
            counts[others], firsts[others] = lengths, len(values) + np.cumsum(lengths) - lengths
            more = pa.array([field for fields in read for field in fields or ()], pa.string())
            values = pa.concat_arrays([values, more])
        values = pc.if_else(pc.equal(values, self._options.null_value), pa.scalar(None, pa.string()), values)
        too_many = counts > self._options.max_columns
        cells = [values.take(pa.array(firsts + at, mask=(counts <= at) | too_many)) for at in range(width)]
        given = np.asarray(texts.is_valid())
        faults = {int(row): _wrong_count(int(counts[row]), width) for row in np.flatnonzero(given & (counts != width))}
        return cells, faults

    def _read(self, texts: pa.StringArray) -> list[list[str] | None]:
        """Return the fields of records that are not plain. A reader in C takes those whose quotes are in order."""
        options, values = self._options, texts.to_pylist()
        if self._in_order is None:
            return [self._records.read(text) for text in values]
        fits = np.asarray(pc.match_substring_regex(texts, self._in_order))
        lengths = np.asarray(pc.binary_length(texts))
        fits = (fits & (lengths > 0) & (lengths < _LONGEST_FIELD)).tolist()
        in_order = (text for text, fitting in zip(values, fits, strict=True) if fitting)
        reader = csv.reader(in_order, delimiter=options.separator, quotechar=options.quote, doublequote=False)
        return [
            next(reader) if fitting else self._records.read(text) for text, fitting in zip(values, fits, strict=True)
        ]

    def _plain_rows(self, texts: pa.StringArray) -> NDArray[np.bool_]:
        """Return which records are one line without quotes; null counts as one."""
        plain = np.asarray(pc.fill_null(pc.greater(pc.binary_length(texts), 0), True))
        for sign in {self._options.quote, _NONE}:
            plain &= ~np.asarray(pc.fill_null(pc.match_substring(texts, sign), False))
        if self._options.trim_end and self._options.empty_value:  # spaces at the end of a text are an empty value
            ends = pc.match_substring_regex(texts, rf"(?:^|{re.escape(self._options.separator)})[\x00- ]+$")
            plain &= ~np.asarray(pc.fill_null(ends, False))
        if self._options.comment != _NONE:
            plain &= ~np.asarray(pc.fill_null(pc.starts_with(texts, self._options.comment), False))
        return plain

    def _trimmed(self, values: pa.StringArray) -> pa.StringArray:
        if self._options.trim_start:
            values = pc.utf8_ltrim(values, _SPACES)
        return pc.utf8_rtrim(values, _SPACES) if self._options.trim_end else values


def _as_text(payloads: pa.BinaryArray) -> pa.StringArray:
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        values: Sequence[bytes | None] = payloads.to_pylist()
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in values], pa.string())


def _pattern_of_records_in_order(options: CsvOptions) -> str | None:
    """Return the pattern of records whose quotes are only around values; None if options forbid a simple reader."""
    if (
        len(options.separator) > 1
        or options.quote == _NONE
        or options.comment != _NONE
        or options.trim_start
        or options.trim_end
        or options.null_value
        or options.empty_value
    ):
        return None
    special = "".join(map(re.escape, {options.quote, options.escape, options.escape_escape} - {_NONE})) + r"\x00"
    separator, quote = re.escape(options.separator), re.escape(options.quote)
    value = rf"(?:{quote}[^{special}]*{quote}|[^{special}{separator}\r\n]*)"
    return rf"^{value}(?:{separator}{value})*$"


def _wrong_count(count: int, width: int) -> str:
    if not count:
        return "the payload has no record"
    return f"the record has {count} field{'s' * (count > 1)}, and the schema has {width}"


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:
    """Return fields named as Spark does, from _c0 on, for the fields of the first record.

    Each has the first type of `TYPES` that reads all of its values. Raises ConfigError without a record.
    """
    given = CsvOptions.of(options)
    texts = [] if payloads is None else _as_text(payloads).drop_null().to_pylist()
    records = [record for record in map(RecordReader(given).read, texts) if record is not None]
    if not records:
        raise ConfigError("no payload has a CSV record to infer fields from; give a schema")
    fields = []
    for at in range(len(records[0])):
        values = [record[at] for record in records if at < len(record) and record[at] != given.null_value]
        column = pa.array(values, pa.string())
        fitting = (kind for kind in TYPES if _reads(kind, column, given, options))
        fields.append(pa.field(f"_c{at}", next(fitting) if values else pa.string()))
    return pa.schema(fields)


def _reads(kind: pa.DataType, texts: pa.StringArray, given: CsvOptions, options: FormatOptions) -> bool:
    """Whether a type reads all texts. A date may have a time after it, but then it is inferred to be a timestamp."""
    if kind == pa.date32() and pc.any(pc.match_substring(texts, ":"), min_count=0).as_py():
        return False
    return not column_reader(pa.field("", kind), given, options).column(texts)[1]


def create(schema: pa.Schema, options: FormatOptions) -> CsvFormat:
    """Return the format. Raises ConfigError if CSV cannot give a column of the schema."""
    made = CsvFormat(schema, options)
    _ = made.readers  # checks the schema
    return made


def create_encoder(schema: pa.Schema, options: FormatOptions) -> CsvFormat:
    """Return the format, for `encode`. Raises ConfigError if CSV has no text for the type of a column."""
    made = CsvFormat(schema, options)
    _ = made.encoder  # checks the schema
    return made
