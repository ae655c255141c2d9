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

from jetspark.payload.json.columns import MapKey, field_reader, record_class
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
        self._decode = msgspec.json.Decoder(record, dec_hook=_map_key, float_hook=Decimal).decode
        self._options = options
        self._short = min(2 * options.max_depth, options.max_number, options.max_string, _LONGEST_NAME)

    def decode(self, payloads: list[bytes | None], longest: int) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """Decode payloads, of which the longest has so many bytes.

        Returns
        -------
        tuple
            The columns, and the unread rows in ascending order: those have any values. All null payloads are unread.
        """
        if longest > self._short:
            payloads = [None if payload is None or self._exceeds(payload) else payload for payload in payloads]
        decode, nothing = self._decode, self._nothing
        records: list[Any] = []
        failed: list[int] = []
        for payload in payloads:
            try:
                records.append(decode(payload))  # type: ignore[arg-type]  # null is a TypeError
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
        return columns, np.unique(np.concatenate(unread)) if unread else NOTHING

    def _exceeds(self, payload: bytes) -> bool:
        """Return whether a payload may be beyond a limit of the options, which msgspec does not know."""
        if len(payload) <= self._short:
            return False
        options = self._options
        if payload.count(b"[") + payload.count(b"{") > options.max_depth:
            return True
        if max(map(len, payload.translate(_NUMBERS_ONLY).split()), default=0) > options.max_number:
            return True
        longest_text = min(options.max_string, _LONGEST_NAME)
        return len(payload) > longest_text and max(map(len, payload.split(b'"'))) > longest_text


def _map_key(kind: type[Any], text: Any) -> MapKey:
    assert kind is MapKey
    return MapKey(text)
