"""Numbers and spans in a byte buffer, for all rows at once.

The buffer is also viewed as little-endian 64-bit words that begin at every byte. So one gather reads up to eight
decimal digits that end at some byte, and three multiplications convert them to a number (SIMD within a register). This
costs a few nanoseconds per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "Bytes",
    "Index",
    "Words",
    "buffer_bytes",
    "copy_padded",
    "find_byte",
    "gather_rows",
    "gather_spans",
    "parse_numbers",
    "parse_numbers_of_length",
    "parse_trailing_numbers",
    "sliding_words",
    "value_offsets",
]

Bytes = NDArray[np.uint8]
Index = NDArray[np.int64]
Words = NDArray[np.uint64]

MAX_DIGITS: Final = 20  # of 64 bits
PADDING: Final = 24  # bytes before gathered spans, so that three words can be read before the end of every number

_U = np.uint64
_LOW7: Final = _U(0x7F7F7F7F7F7F7F7F)
_ONES: Final = _U(0x0101010101010101)
_ZEROS_ASCII: Final = _U(0x3030303030303030)
_SPACES: Final = _U(0x2020202020202020)
_PIECE_BYTES: Final = 1 << 17
_TOP_DIGITS: Final = _U((2**64 - 1) // 10**16)


def buffer_bytes(buffer: pa.Buffer) -> memoryview:
    """Return the bytes of an Arrow buffer, not copied."""
    return memoryview(buffer)


def sliding_words(buffer: Bytes) -> Words:
    """Return a view of the 64-bit words that begin at every byte; `len(buffer) - 7` words, not copied."""
    return np.ndarray((max(len(buffer) - 7, 0),), dtype="<u8", buffer=buffer.data, strides=(1,))


def find_byte(buffer: Bytes, *values: int) -> Index:
    """Return the positions of all bytes that are one of `values`."""
    if len(buffer) <= _PIECE_BYTES:
        return _find(buffer, values)
    # Piece by piece, so that the mask stays in the cache.
    pieces = []
    for at in range(0, len(buffer), _PIECE_BYTES):
        piece = _find(buffer[at : at + _PIECE_BYTES], values)
        piece += at
        pieces.append(piece)
    return np.concatenate(pieces)


def _find(buffer: Bytes, values: tuple[int, ...]) -> Index:
    mask = buffer == values[0]
    for value in values[1:]:
        mask |= buffer == value
    return np.flatnonzero(mask)


def _digits_to_number(digits: Words) -> Words:
    """Convert eight digit values (0 to 9, the first in the lowest byte) to one number."""
    number = digits * _U(10 * 256 + 1)
    number >>= _U(8)
    number &= _U(0x00FF00FF00FF00FF)
    number *= _U(100 * 65536 + 1)
    number >>= _U(16)
    number &= _U(0x0000FFFF0000FFFF)
    number *= _U(10000 * 2**32 + 1)
    number >>= _U(32)
    return number


def _digit_values(words: Words, keep: Words | np.uint64) -> tuple[Words, NDArray[np.bool_]]:
    """Return the digit values of the kept bytes, and whether all of them are digits."""
    values = words ^ _ZEROS_ASCII
    values &= keep
    # A value of 0x80 or more, or of 10 or more in the low seven bits, is not a digit.
    over = values & _LOW7
    over += _LOW7 - _U(9) * _ONES
    over |= values
    over &= ~_LOW7
    return values, over == 0


def parse_trailing_numbers(words: Words) -> tuple[Words, Words, NDArray[np.bool_]]:
    """Read the numbers between the last space of a word and its end.

    Returns the numbers, their count of digits, and whether the word has a space that only digits (at least one) follow.
    """
    apart = words ^ _SPACES
    # The high bit of each byte that is a space, exactly.
    spaces = ~(((apart & _LOW7) + _LOW7) | apart | _LOW7)
    # Copy the bit to lower bytes: every byte up to the last space has its high bit set.
    smear = spaces | (spaces >> _U(8))
    smear |= smear >> _U(16)
    smear |= smear >> _U(32)
    keep = ~((smear >> _U(7)) * _U(0xFF))
    values, digits_only = _digit_values(words, keep)
    count = _U(8) - np.bitwise_count(smear).astype(np.uint64)
    return _digits_to_number(values), count, digits_only & (spaces != 0) & (count > 0)


def parse_numbers(words: Words, starts: Index, ends: Index) -> tuple[Words, NDArray[np.bool_]]:
    """Read the unsigned decimals in the spans `[start, end)`.

    Needs `PADDING` bytes of any value before each start. Returns the numbers, and whether each has only digits (1 to
    20) and fits in 64 bits.
    """
    if not len(starts):
        return np.zeros(0, np.uint64), np.zeros(0, np.bool_)
    lengths = ends - starts
    longest, shortest = int(lengths.max()), int(lengths.min())
    if longest == shortest:  # the usual case, in half the time
        return parse_numbers_of_length(longest, lambda back: words[ends - back], len(starts))
    good = (lengths > 0) & (lengths <= MAX_DIGITS)
    total = np.zeros(len(starts), np.uint64)
    for done in range(0, min(longest, MAX_DIGITS), 8):
        if shortest >= done + 8:
            chunk, keep = words[ends - (done + 8)], ~_U(0)
        else:
            chunk = words[np.maximum(ends - (done + 8), 0)]
            left = np.clip(lengths - done, 0, 8).astype(np.uint64)
            keep = ~_U(0) << ((_U(8) - left) * _U(8))  # a shift by 64 gives 0 here: no digits, no bytes kept
        _add_digits(total, good, done, *_digit_values(chunk, keep))
    return total, good


def parse_numbers_of_length(length: int, word: Callable[[int], Words], count: int) -> tuple[Words, NDArray[np.bool_]]:
    """Read numbers of one length; `word(back)` returns the words that begin `back` bytes before the numbers' ends."""
    total, good = np.zeros(count, np.uint64), np.ones(count, np.bool_)
    if not 0 < length <= MAX_DIGITS:
        return total, ~good
    for done in range(0, length, 8):
        chunk = word(done + 8)
        if done and (chunk == chunk[0]).all():
            chunk = chunk[:1]  # in times and long sequences, the upper digits are mostly the same in all rows
        _add_digits(total, good, done, *_digit_values(chunk, ~_U(0) << _U(8 * max(done + 8 - length, 0))))
    return total, good


def _add_digits(
    total: Words, good: NDArray[np.bool_], done: int, values: Words, digits_only: NDArray[np.bool_]
) -> None:
    """Add eight more digits before the `done` digits that `total` has."""
    good &= digits_only
    number = _digits_to_number(values)
    if done == 16:
        good &= number <= _TOP_DIGITS
    number *= _U(10**done)
    total += number
    if done == 16:
        good &= total >= number  # a smaller sum means an overflow of 64 bits


_EVEN: list[pa.Int32Array] = [pa.nulls(0, pa.int32())]  # `pa.array` would import pandas now


def _even_slots(count: int) -> pa.Int32Array:
    # Read the list once: another thread may store a shorter array.
    slots = _EVEN[0]
    if len(slots) < count:
        slots = _EVEN[0] = pa.array(np.arange(0, 4 * count, 2), pa.int32())
    return slots.slice(0, count)


def gather_spans(buffer: pa.Buffer, starts: Index, ends: Index) -> pa.BinaryArray:
    """Copy the spans `[start, end)`, in order and not overlapping, into a new binary array.

    It creates an array over the buffer with the slots span, gap, span, gap and so on, and takes the even slots in C++.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = offsets[-2] if count else 0
    slots = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets.data), buffer])
    taken = slots.take(_even_slots(count))
    assert isinstance(taken, pa.BinaryArray)
    return taken


def gather_rows(data: Bytes, start: int, length: int, stride: int, count: int) -> pa.BinaryArray:
    """Copy `count` spans of `length` bytes, `stride` bytes apart, into a new binary array."""
    if not length:
        return pa.repeat(pa.scalar(b""), count)
    values = np.ndarray((count,), f"V{length}", data.data, start, (stride,)).copy()
    offsets = np.arange(0, count * length + 1, length, dtype=np.int32)
    parts = [None, pa.py_buffer(offsets.data), pa.py_buffer(values.data)]
    return pa.BinaryArray.from_buffers(pa.binary(), count, parts)


def value_offsets(spans: pa.BinaryArray) -> Index:
    """Return where each value begins in the value buffer, and where the last one ends, int64 (n + 1,)."""
    if not len(spans):  # an empty array need not have offsets
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(buffer_bytes(spans.buffers()[1]), np.int32, len(spans) + 1, offset=4 * spans.offset)
    return offsets.astype(np.int64)


def copy_padded(spans: pa.BinaryArray) -> tuple[Index, Bytes]:
    """Return offsets, int64 (n + 1,), and bytes of an array, `PADDING` zero bytes before and one word after them."""
    offsets = value_offsets(spans)
    first, stop = int(offsets[0]), int(offsets[-1])
    data = np.zeros(PADDING + stop - first + 8, np.uint8)
    if stop > first:
        data[PADDING : PADDING + stop - first] = np.frombuffer(buffer_bytes(spans.buffers()[2]), np.uint8)[first:stop]
    return offsets + (PADDING - first), data
