"""Reply subjects of rows, for whole columns: each row has one of its own, and none can be guessed from another.

The token of row `r` begins with the number `r % TOKENS` in five digits, which finds the row, and ends with eleven
random characters (66 bits), which prove that the token was handed out. A token is known until `TOKENS` more rows
have got theirs.
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.wire.vector.byte_spans import Index, Words, parse_numbers_of_length

__all__ = ["TOKENS", "RowTokens"]

TOKENS: Final = 100_000
"""Number of tokens that are known at a time."""
_DIGITS: Final = 5
_LENGTH: Final = 16  # two words of eight bytes
_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


class RowTokens:
    """The tokens of rows from `origin` on.

    Parameters
    ----------
    inbox
        The reply subjects without the last token.
    origin
        Number of the first row.
    """

    def __init__(self, inbox: str, origin: int) -> None:
        self._prefix = np.frombuffer(f"{inbox}.".encode(), np.uint8)
        self._tokens = np.zeros((TOKENS, _LENGTH), np.uint8)
        self._origin = self._stop = origin

    @property
    def reply_length(self) -> int:
        """Bytes of each reply subject."""
        return len(self._prefix) + _LENGTH

    def replies(self, first: int, count: int) -> pa.BinaryArray:
        """Return new reply subjects of rows, binary (count,)."""
        self._stop = max(self._stop, first + count)
        places = _places(first, count)
        subjects = np.empty((count, self.reply_length), np.uint8)
        subjects[:, :-_LENGTH] = self._prefix
        tokens = subjects[:, -_LENGTH:]
        tokens[:, :_DIGITS] = _numbers()[places]
        secret = np.frombuffer(secrets.token_bytes(count * (_LENGTH - _DIGITS)), np.uint8)
        tokens[:, _DIGITS:] = _ALPHABET[secret & 63].reshape(count, -1)
        self._tokens[places] = tokens
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(self.reply_length)
        parts = [None, pa.py_buffer(offsets.data), pa.py_buffer(subjects.data)]
        return pa.BinaryArray.from_buffers(pa.binary(), count, parts)

    def are_rows(self, first: int, words: Words, ends: Index) -> bool:
        """Return whether the subjects are those of consecutive rows, as usual; see `rows_of`."""
        start = np.maximum(ends - _LENGTH, 0)
        known = self._tokens[_places(first, len(ends))].view("<u8")
        return bool((words[start] == known[:, 0]).all() and (words[start + 8] == known[:, 1]).all())

    def rows_of(self, words: Words, ends: Index) -> Index:
        """Return the rows of reply subjects, int64 (n,); -1 for a subject that was not handed out, or long ago.

        `ends` are the ends of the subjects in the bytes of which `words` are the sliding words.
        """
        start = np.maximum(ends - _LENGTH, 0)
        digits_end = start + _DIGITS
        numbers, good = parse_numbers_of_length(
            _DIGITS, lambda back: words[np.maximum(digits_end - back, 0)], len(ends)
        )
        places = np.where(good, numbers, 0).astype(np.int64)
        known = self._tokens.view("<u8")[places]
        good &= (words[start] == known[:, 0]) & (words[start + 8] == known[:, 1])
        rows = self._stop - 1 - (self._stop - 1 - places) % TOKENS
        return np.where(good & (rows >= self._origin), rows, -1)


def _places(first: int, count: int) -> slice | Index:
    """Return where the tokens of consecutive rows are."""
    at = first % TOKENS
    return slice(at, at + count) if at + count <= TOKENS else np.arange(at, at + count, dtype=np.int64) % TOKENS


@cache
def _numbers() -> NDArray[np.uint8]:
    """Return the digits of all numbers of tokens, (TOKENS, 5)."""
    numbers = np.arange(TOKENS)[:, None] // 10 ** np.arange(_DIGITS - 1, -1, -1) % 10
    return (numbers + ord("0")).astype(np.uint8)
