"""Decodes many JSON payloads at once: msgspec reads each into a record, and the records become columns.

It reads only what `from_json` certainly reads in the same way: strict JSON whose values have the types of the fields.
All other rows are unread; the decoder of rows does them. `pyarrow.json` is no help here: it takes more time for a
row, fails as a whole for one bad row, and reads infinities, -0 and decimals as text in another way.
"""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from jetspark.payload.json.columns import field_reader, read_value, record_class
from jetspark.payload.json.time_columns import NOTHING

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from jetspark.payload.json.options import JsonOptions

__all__ = ["FastDecoder"]

# msgspec's own errors and UnicodeDecodeError are ValueErrors. A null payload is a TypeError, and an exponent that
# Decimal cannot hold an ArithmeticError.
_UNREAD: Final = (ValueError, TypeError, ArithmeticError, RecursionError)
_NUMBER: Final = b"+-.0123456789eE"
_NUMBERS_ONLY: Final = bytes(byte if byte in _NUMBER else 32 for byte in range(256))
# An escape in text, the end of the text, and a colon.
_ESCAPE_IN_NAME: Final = r"""\\.[^"\\]*"[ \t\r\n]*:"""
# Jackson's limit for the names of fields, in characters.
_LONGEST_NAME: Final = 50_000


class FastDecoder:
    """Decodes lists of payloads into columns of a schema."""

    def __init__(self, schema: pa.Schema, options: JsonOptions) -> None:
        readers = [field_reader(field.type, options) for field in schema]
        self._readers = [reader for reader in readers if reader is not None]
        # A name with this character could stand for a payload that is not UTF-8.
        odd = any("\ufffd" in name for name in schema.names)
        self.usable = len(self._readers) == len(readers) and len(set(schema.names)) == len(readers) and not odd
        """Whether it reads all columns. Otherwise nothing else of it may be used."""
        if not self.usable:
            return
        record = record_class(schema, self._readers)
        self._nothing = record()
        self._decode = msgspec.json.Decoder(record, dec_hook=read_value, float_hook=Decimal).decode
        self._names = [
            b'"%b"' % name.encode() if reader.sees_last else None
            for name, reader in zip(schema.names, self._readers, strict=True)
        ]
        self._options = options
        self._short = min(2 * options.max_depth, options.max_number, options.max_string, _LONGEST_NAME)

    def decode(self, payloads: pa.BinaryArray, longest: int) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """Decode payloads, of which the longest has so many bytes.

        Returns
        -------
        tuple
            The columns, and the unread rows in ascending order: those have any values. All null payloads are unread.
        """
        texts: list[bytes | None] = payloads.to_pylist()
        if longest > self._short:
            texts = [None if text is None or self._exceeds(text) else text for text in texts]
        decode, nothing = self._decode, self._nothing
        records: list[Any] = []
        failed: list[int] = []
        for text in texts:
            try:
                records.append(decode(text))  # type: ignore[arg-type]  # null is a TypeError
            except _UNREAD:
                failed.append(len(records))
                records.append(nothing)
        unread = [np.array(failed, np.int64)] if failed else []
        columns = []
        for index, reader in enumerate(self._readers):
            column, rows = reader.column(list(map(attrgetter(f"f{index}"), records)))
            columns.append(column)
            if len(rows):
                unread.append(rows)
        unread += self._repeated(payloads, columns)
        return columns, np.unique(np.concatenate(unread)) if unread else NOTHING

    def _repeated(self, payloads: pa.BinaryArray, columns: list[pa.Array]) -> list[NDArray[np.int64]]:
        """Return rows in which a name may come twice, of the fields whose readers see the last value only."""
        named = [(name, column) for name, column in zip(self._names, columns, strict=True) if name is not None]
        if not named:
            return []
        ends = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
        content = payloads.buffers()[2]
        joined = b"" if content is None else content.slice(ends[0], ends[-1] - ends[0]).to_pybytes()
        found = []
        if b"\\" in joined:
            found.append(pc.match_substring_regex(payloads, _ESCAPE_IN_NAME))
        for name, column in named:
            # Each row with a value has the name at least once. With so many in all, none has it twice.
            if joined.count(name) > len(column) - column.null_count:
                found.append(pc.greater(pc.count_substring(payloads, name), 1))
        return [np.flatnonzero(flags.fill_null(False).to_numpy(zero_copy_only=False)) for flags in found]

    def _exceeds(self, payload: bytes) -> bool:
        """Return whether a payload may be beyond a limit of the options, which msgspec does not know."""
        if len(payload) <= self._short:
            return False
        options = self._options
        # A longer number covers two of the samples.
        samples = payload[:: max(1, options.max_number // 2)]
        if _longest_number(samples) > 1 and _longest_number(payload) > options.max_number:
            return True
        brackets = payload.count(b"[") + payload.count(b"{")
        longest_text = min(options.max_string, _LONGEST_NAME)
        if brackets <= options.max_depth and len(payload) <= longest_text:
            return False
        # Texts are every second part between quotes, once there are no quotes in them.
        parts = payload.replace(b"\\\\", b"xx").replace(b'\\"', b"xx").split(b'"')
        return max(map(len, parts[1::2]), default=0) > longest_text or _depth(b"".join(parts[::2])) > options.max_depth


def _longest_number(payload: bytes) -> int:
    return max(map(len, payload.translate(_NUMBERS_ONLY).split()), default=0)


def _depth(brackets: bytes) -> int:
    """Return the deepest nesting of JSON without texts."""
    characters = np.frombuffer(brackets, np.uint8)
    steps = np.zeros(256, np.int8)
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    return int(np.cumsum(steps[characters], dtype=np.int64).max(initial=0))
