"""The formats of payloads: each decodes a column of payloads into rows, and encodes rows into payloads."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.options import parse_format_options
from jetspark.wire.arguments import nearest_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FORMATS",
    "INFERRED_FROM_PAYLOADS",
    "BadRecord",
    "Decoded",
    "PayloadFormat",
    "infer_schema",
    "make_format",
]

FORMATS: Final[Mapping[str, str]] = {
    "avro": "jetspark.payload.avro",
    "json": "jetspark.payload.json.format",
    "csv": "jetspark.payload.csv.format",
    "protobuf": "jetspark.payload.protobuf",
    "text": "jetspark.payload.text",
}
"""The module of each format. Its function create(schema, options) returns the format; create_encoder, if there is one,
returns it for writes."""
INFERRED_FROM_PAYLOADS: Final = frozenset({"json", "csv"})
"""Formats whose fields can only be found in payloads. The others have them in their options, or always the same."""
_INFERENCE: Final[Mapping[str, str]] = {"json": "jetspark.payload.json.infer"}
"""The module with the function infer_schema(payloads, options), if it is not the module of the format."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A payload that cannot be decoded.

    Attributes
    ----------
    row
        Its row in the decoded column.
    reason
        The fault of the payload: one line of limited length.
    """

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a column of payloads.

    Attributes
    ----------
    rows
        One row for each payload, with exactly the schema of the format. A bad record is null in the columns that could
        not be read.
    bad
        The bad records, in the order of their rows.
    """

    rows: pa.RecordBatch
    bad: Sequence[BadRecord] = ()


@runtime_checkable
class PayloadFormat(Protocol):
    """A format of payloads with a schema and options. It is picklable, and has no state between two calls."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the decoded rows, and of the rows to encode."""

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Decode payloads. A payload that cannot be decoded is a bad record, never an exception."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Encode rows.

        Raises
        ------
        PayloadError
            A row cannot be encoded; the error names row and column.
        """


def make_format(
    name: str, schema: pa.Schema, options: Mapping[str, str] | None = None, *, to_encode: bool = False
) -> PayloadFormat:
    """Return a format.

    Parameters
    ----------
    name
        Name of a format in `FORMATS`.
    schema
        Columns to decode or to encode.
    options
        Options of the format by their names in camel case, as text; see `jetspark.payload.options`.
    to_encode
        Whether the schema is checked for `encode`. By default it is checked for `decode`.

    Raises
    ------
    ConfigError
        There is no such format or option, or the format cannot give, or take, a column of the schema.
    """
    if name not in FORMATS:
        nearest = nearest_name(name, FORMATS, cutoff=0.0)
        raise ConfigError(f"there is no payload format {name!r}; did you mean {nearest}? All: {', '.join(FORMATS)}")
    values = parse_format_options(name, options or {})
    module = importlib.import_module(FORMATS[name])
    create = getattr(module, "create_encoder", module.create) if to_encode else module.create
    return cast("PayloadFormat", create(schema, values))


def infer_schema(
    name: str, payloads: pa.BinaryArray | None = None, options: Mapping[str, str] | None = None
) -> pa.Schema:
    """Return the columns of a format as payloads have them.

    Parameters
    ----------
    name
        Name of a format in `FORMATS`.
    payloads
        Payloads, for the formats in `INFERRED_FROM_PAYLOADS`; the others need none.
    options
        As of `make_format`.

    Raises
    ------
    ConfigError
        The options do not say what is needed, or nothing can be inferred.
    """
    values = parse_format_options(name, options or {})
    module = importlib.import_module(_INFERENCE.get(name, FORMATS[name]))
    return cast("pa.Schema", module.infer_schema(payloads, values))
