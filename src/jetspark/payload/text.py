"""Payloads as text: each is one UTF-8 string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError, PayloadError
from jetspark.payload.formats import BadRecord, Decoded
from jetspark.payload.options import FormatOptions

__all__ = ["TextFormat", "create", "infer_schema"]

_BROKEN: Final = "the payload is not UTF-8"


@dataclass(frozen=True)
class TextFormat:
    """One column of text; see `PayloadFormat`."""

    schema: pa.Schema

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Return the payloads as strings. Payloads that are not UTF-8 are null."""
        bad: list[BadRecord] = []
        try:
            column = payloads.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_text_of(payload) for payload in payloads.to_pylist()]
            bad = [
                BadRecord(row, _BROKEN)
                for row, (text, valid) in enumerate(zip(texts, payloads.is_valid().to_pylist(), strict=True))
                if valid and text is None
            ]
            column = pa.array(texts, pa.string())
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), bad)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the strings as payloads. Raises PayloadError for null."""
        column = rows.column(0)
        if column.null_count:
            row = column.is_null().index(True).as_py()
            raise PayloadError(f"row {row}, column {self.schema.names[0]}: a payload of text cannot be null")
        return column.cast(pa.binary())


def _text_of(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


def create(schema: pa.Schema, options: FormatOptions) -> TextFormat:  # noqa: ARG001 - it has no options
    """Return the format. Raises ConfigError unless the schema is one column of strings."""
    if len(schema) != 1 or not pa.types.is_string(schema.field(0).type):
        columns = ", ".join(f"{field.name} {field.type}" for field in schema) or "none"
        raise ConfigError(f"payload format text gives one column of type string; the schema has: {columns}")
    return TextFormat(schema)


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:  # noqa: ARG001 - always the same
    """Return the one column of text, `value`."""
    return pa.schema([("value", pa.string())])
