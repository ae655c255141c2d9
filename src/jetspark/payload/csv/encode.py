"""Rows become CSV: each row one record, with the text that Spark's to_csv gives. No Python code runs for a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.csv.options import CsvOptions
from jetspark.payload.time_patterns import TimeTexts
from jetspark.payload.value_texts import float_texts

if TYPE_CHECKING:
    from jetspark.payload.options import FormatOptions

__all__ = ["CsvEncoder"]

_SPACES: Final = "".join(map(chr, range(33)))
_NONE: Final = "\0"
_COMMENT: Final = "#"
"""Spark's writer puts a first field that begins so into quotes, also without the option."""


class CsvEncoder:
    """Encodes record batches of a schema.

    Parameters
    ----------
    schema
        Columns of the rows.
    options
        Options of the format csv.

    Raises
    ------
    ConfigError
        CSV has no text for the type of a column.
    """

    def __init__(self, schema: pa.Schema, options: FormatOptions) -> None:
        for field in schema:
            _check(field)
        self._options = CsvOptions.of(options)
        self._times = TimeTexts.of(options)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record for each row."""
        if not rows.num_columns:
            return pa.repeat(pa.scalar(b""), rows.num_rows)
        cells = [self._cells(column, first=not at) for at, column in enumerate(rows.columns)]
        return pc.binary_join_element_wise(*cells, self._options.separator).cast(pa.binary())

    def _cells(self, column: pa.Array, *, first: bool) -> pa.StringArray:
        options = self._options
        texts = self._texts(column)
        begun = texts if options.trim_start is False else pc.utf8_ltrim(texts, _SPACES)
        trimmed = begun if options.trim_end is False else pc.utf8_rtrim(begun, _SPACES)
        cells = self._in_quotes(trimmed, self._need_quotes(texts, begun, first=first))
        empty = self._constant('""' if options.empty_value is None else options.empty_value, first=first)
        cells = pc.if_else(pc.equal(trimmed, ""), empty, cells)
        return pc.fill_null(cells, self._constant(options.null_value, first=first)) if column.null_count else cells

    def _need_quotes(self, texts: pa.StringArray, begun: pa.StringArray, *, first: bool) -> pa.BooleanArray:
        """Return which values need quotes; of spaces that a write leaves out, those at the end count, too."""
        options = self._options
        if options.quote_all:
            return pc.is_valid(texts)
        needed = pc.starts_with(begun, options.quote)
        for sign in (options.separator, "\n", "\r", *((options.quote,) if options.escape_quotes else ())):
            needed = pc.or_(needed, pc.match_substring(begun, sign))
        if first:
            comment = _COMMENT if options.comment == _NONE else options.comment
            needed = pc.or_(needed, pc.starts_with(texts, comment))
        return needed

    def _in_quotes(self, texts: pa.StringArray, needed: pa.BooleanArray) -> pa.StringArray:
        if not pc.any(needed, min_count=0).as_py():
            return texts
        options, quote = self._options, self._options.quote
        escaped = texts
        if options.escape_escape != _NONE and options.escape != quote:
            escaped = pc.replace_substring(escaped, options.escape, options.escape_escape + options.escape)
        escaped = pc.replace_substring(escaped, quote, options.escape.replace(_NONE, "") + quote)
        return pc.if_else(needed, pc.binary_join_element_wise(quote, escaped, quote, ""), texts)

    def _constant(self, text: str, *, first: bool) -> str:
        """Return the text for null or for an empty string, in quotes if it needs them."""
        quote = self._options.quote
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            return text
        texts = pa.array([text])
        return str(self._in_quotes(texts, self._need_quotes(texts, texts, first=first))[0])

    def _texts(self, column: pa.Array) -> pa.StringArray:
        kind, types = column.type, pa.types
        if types.is_floating(kind):
            return float_texts(column)
        if types.is_date32(kind):
            return self._times.date(column)
        if types.is_timestamp(kind):
            return self._times.timestamp(column)
        if types.is_binary(kind):
            values = cast("list[bytes | None]", column.to_pylist())
            return pa.array([None if each is None else f"[{each.hex(' ').upper()}]" for each in values], pa.string())
        return column.cast(pa.string())


def _check(field: pa.Field) -> None:
    kind, types = field.type, pa.types
    if not (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_null(kind)
    ):
        raise ConfigError(f"payload format csv has no text for column {field.name} of type {kind}")
