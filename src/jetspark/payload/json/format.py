"""The format JSON: most payloads are decoded many at once, the others row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from jetspark.payload.formats import BadRecord, Decoded
from jetspark.payload.json.encode import JsonEncoder
from jetspark.payload.json.fast import FastDecoder
from jetspark.payload.json.options import JsonOptions
from jetspark.payload.json.rows import RowDecoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.options import FormatOptions

__all__ = ["JsonFormat", "create", "create_encoder"]

# One piece of payloads is a list of Python objects at a time: so many rows, and so many bytes unless one row has more.
_PIECE_ROWS: Final = 8192
_PIECE_BYTES: Final = 2 * 1024 * 1024


class JsonFormat:
    """JSON objects as rows; see `PayloadFormat`."""

    def __init__(self, schema: pa.Schema, options: FormatOptions) -> None:
        self.schema = schema
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., JsonFormat], tuple[pa.Schema, FormatOptions]]:
        """Pickle schema and options."""
        return JsonFormat, (self.schema, self._options)

    @cached_property
    def row_decoder(self) -> RowDecoder:
        """Decodes row by row. Raises ConfigError if JSON cannot give a column."""
        return RowDecoder(self.schema, self._options)

    @cached_property
    def encoder(self) -> JsonEncoder:
        """Encodes rows. Raises ConfigError if JSON has no text for the type of a column."""
        return JsonEncoder(self.schema, self._options)

    @cached_property
    def _fast(self) -> FastDecoder:
        return FastDecoder(self.schema, JsonOptions.of(self._options))

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Decode payloads as Spark's `from_json` does."""
        bad: list[BadRecord] = []
        lengths = _lengths(payloads)
        pieces = [
            self._piece(payloads.slice(start, stop - start), int(lengths[start:stop].max()), start, bad)
            for start, stop in _pieces(lengths)
        ]
        if not len(self.schema):
            rows = pa.array([{}] * len(payloads), pa.struct([]))
            return Decoded(pa.RecordBatch.from_struct_array(rows), bad)
        columns = [
            _joined([piece[index] for piece in pieces]) if pieces else pa.array([], field.type)
            for index, field in enumerate(self.schema)
        ]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=self.schema), bad)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Encode rows as Spark's to_json does."""
        return self.encoder.encode(rows)

    def _piece(self, payloads: pa.BinaryArray, longest: int, start: int, bad: list[BadRecord]) -> list[pa.Array]:
        """Return the columns of payloads; the longest of them has so many bytes, and the first is row `start`."""
        if not self._fast.usable:
            return self._row_by_row(payloads, np.arange(len(payloads)), start, bad)
        columns, unread = self._fast.decode(payloads, longest)
        if not len(unread):
            return columns
        others = self._row_by_row(payloads, unread, start, bad)
        places = np.arange(len(payloads))
        places[unread] = len(payloads) + np.arange(len(unread))
        order = pa.array(places)
        return [pa.concat_arrays(pair).take(order) for pair in zip(columns, others, strict=True)]

    def _row_by_row(
        self, payloads: pa.BinaryArray, rows: NDArray[np.int64], start: int, bad: list[BadRecord]
    ) -> list[pa.Array]:
        """Return the columns of some rows of payloads."""
        nulls: list[object] = [None] * len(self.schema)
        decoded = []
        for row, text in zip(rows.tolist(), payloads.take(pa.array(rows)).to_pylist(), strict=True):
            values, reason = (nulls, None) if text is None else self.row_decoder.decode_row(text)
            decoded.append(values)
            if reason is not None:
                bad.append(BadRecord(start + row, reason))
        return [pa.array([values[index] for values in decoded], field.type) for index, field in enumerate(self.schema)]


def _lengths(payloads: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the lengths of payloads, in bytes; a null payload may have any."""
    offsets = np.frombuffer(payloads.buffers()[1] or b"\0\0\0\0", np.int32)
    return np.diff(offsets[payloads.offset : payloads.offset + len(payloads) + 1])


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _pieces(lengths: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of payloads of these lengths."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _PIECE_BYTES, side="right"))
        stop = min(max(fitting, start + 1), start + _PIECE_ROWS)
        yield start, stop
        start = stop


def create(schema: pa.Schema, options: FormatOptions) -> JsonFormat:
    """Return the format. Raises ConfigError if JSON cannot give a column of the schema."""
    made = JsonFormat(schema, options)
    _ = made.row_decoder  # checks the schema
    return made


def create_encoder(schema: pa.Schema, options: FormatOptions) -> JsonFormat:
    """Return the format, for `encode`. Raises ConfigError if JSON has no text for the type of a column."""
    made = JsonFormat(schema, options)
    _ = made.encoder  # checks the schema
    return made
