"""Decodes JSON payloads row by row, as Spark's from_json does. Slow; used for what the fast path cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from jetspark.payload.json.options import JsonOptions
from jetspark.payload.json.reader import JsonReader, Token
from jetspark.payload.json.scanner import BrokenJsonError
from jetspark.payload.json.values import row_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.payload.options import FormatOptions

__all__ = ["RowDecoder"]

_LONE_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_LONGEST_REASON: Final = 300


class RowDecoder:
    """Decodes payloads into rows of a schema. It is picklable, and has no state between two calls.

    Parameters
    ----------
    schema
        Columns of the rows.
    options
        Parsed options of the format "json".

    Raises
    ------
    ConfigError
        JSON cannot give the type of a field; the error names both. Or a pattern of times or dates is not supported.
    """

    def __init__(self, schema: pa.Schema, options: FormatOptions) -> None:
        self._arguments = (schema, options)
        self._options = JsonOptions.of(options)
        self._read = row_reader(schema, self._options)
        self._width = len(schema)

    def __reduce__(self) -> tuple[type[RowDecoder], tuple[pa.Schema, FormatOptions]]:
        """Pickle the arguments."""
        return RowDecoder, self._arguments

    def decode_row(self, payload: bytes) -> tuple[list[object], str | None]:
        """Decode one payload.

        Returns
        -------
        tuple
            The values of the columns, as `pyarrow.array` takes them: integers for dates and timestamps (in the unit of
            the type), `Decimal`, `bytes`, `dict` for a struct, a list of pairs for a map. Then None, or why Spark
            counts the record as malformed; the values are then those that Spark keeps.
        """
        reader = JsonReader(text_of(payload), self._options)
        try:
            if reader.advance() is None:
                return [None] * self._width, None
            if reader.token is not Token.OBJECT:
                token = reader.token
                assert token is not None
                reader.fail(f"the payload is {token.value}, not an object")
            values, cause = self._read(reader)
            return values, None if cause is None else str(cause)[:_LONGEST_REASON]
        except BrokenJsonError as fault:
            return [None] * self._width, str(fault)[:_LONGEST_REASON]


def text_of(payload: bytes) -> str:
    """Decode UTF-8. As in Java, each broken sequence becomes one U+FFFD."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return _LONE_SURROGATE.sub(b"\xef\xbf\xbd", payload).decode(errors="replace")
