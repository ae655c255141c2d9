"""Encode Arrow columns as PUB and HPUB frames: Arrow joins all frames of a record batch in C++.

The result is a binary array. Its value buffer holds the bytes for the socket. Its offsets say where each frame begins,
so that a sender can stop and continue at any row.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.wire.errors import BadSubjectError
from jetspark.wire.vector.byte_spans import Index, value_offsets

__all__ = ["encode_publishes", "max_frame_sizes", "row_offsets"]

# Verb, blanks, two sizes of up to eight digits and line ends of one frame.
_OVERHEAD: Final = 40


def max_frame_sizes(subjects: pa.Array, payloads: pa.Array, reply_length: int, headers: pa.Array | None) -> pa.Array:
    """Return an upper bound of the bytes of each row's frame, int64 (n,), without building the frame."""
    total = pc.add(_length(subjects), _length(payloads))
    if headers is not None:
        total = pc.add(total, _length(headers))
    return pc.add(total, pa.scalar(_OVERHEAD + reply_length, pa.int64()))


def _length(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0)


def encode_publishes(
    subjects: pa.Array, replies: pa.Array, payloads: pa.Array, headers: pa.Array | None = None
) -> pa.BinaryArray:
    """Build one PUB or HPUB for each row.

    Parameters
    ----------
    subjects
        binary (n,), checked by the caller, no nulls.
    replies
        binary (n,), no nulls; empty for a row without a reply.
    payloads
        binary (n,); null is an empty payload.
    headers
        binary (n,) of whole header blocks, null for a row without headers; None if no row has headers.

    Returns
    -------
    pa.BinaryArray
        (n,) frames. Together they must stay below 2 GiB (`max_frame_sizes`).

    Raises
    ------
    BadSubjectError
        A null subject or reply; the message names the row.
    """
    _refuse_null("subject", subjects)
    _refuse_null("reply", replies)
    payloads = pc.fill_null(payloads, b"")
    size = pc.binary_length(payloads)
    middle: tuple[pa.Array | bytes, ...] = (b" ", replies, b" ")
    if pc.any(pc.equal(pc.binary_length(replies), 0)).as_py():
        middle = (b" ", pc.if_else(pc.equal(pc.binary_length(replies), 0), b"", _join(replies, b" ")))
    if headers is None:
        return _join(b"PUB ", subjects, *middle, _text(size), b"\r\n", payloads, b"\r\n")
    present = pc.is_valid(headers)
    headers = pc.fill_null(headers, b"")
    header_size = pc.binary_length(headers)
    verb: pa.Array | bytes = b"HPUB "
    sizes = _join(_text(header_size), b" ", _text(pc.add(header_size, size)))
    if pc.all(present).as_py() is False:
        verb = pc.if_else(present, pa.scalar(b"HPUB "), pa.scalar(b"PUB "))
        sizes = pc.if_else(present, sizes, _text(size))
    return _join(verb, subjects, *middle, sizes, b"\r\n", headers, payloads, b"\r\n")


def _refuse_null(what: str, column: pa.Array) -> None:
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(pc.is_null(column)))[0])
        raise BadSubjectError(f"row {row}: the {what} is null")


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _join(*pieces: pa.Array | bytes) -> pa.BinaryArray:
    joined = pc.binary_join_element_wise(*pieces, b"")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def row_offsets(frames: pa.BinaryArray) -> Index:
    """Return where each frame begins in the value buffer, and where the last one ends, int64 (n + 1,)."""
    return value_offsets(frames)
