"""Convert the header blocks of many messages to a `map<string, list<string>>` column and back.

The decoder concatenates the blocks and finds every line and its first colon in one pass. If one block is unusual (bytes
that are not UTF-8, line feeds without a carriage return, many blanks), the scalar parser reads all blocks, row by row.
Both give the same result. One difference to `headers.parse`: Arrow strings cannot hold surrogates, so bytes that are
not UTF-8 become U+FFFD.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.wire.errors import BadHeadersError
from jetspark.wire.headers import KEY_RULE, VALUE_RULE, parse_header_block
from jetspark.wire.vector.byte_spans import Bytes, Index, copy_padded, find_byte, gather_spans

__all__ = ["HEADERS_TYPE", "decode_headers", "encode_headers", "remove_headers"]

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))
"""Arrow type of a headers column: null for a message without a header block."""

_LF: Final = 10
_CR: Final = 13
_COLON: Final = 58
_BLANKS: Final = 4  # with more blanks around a value, the scalar parser reads the blocks
_KEY: Final = "^[!-9;-~]+$"
_LINE_END: Final = "[\r\n]"


def decode_headers(blocks: pa.BinaryArray, present: NDArray[np.bool_]) -> pa.MapArray:
    """Read header blocks.

    Parameters
    ----------
    blocks
        binary (n,), each with its version line; empty for a message without headers.
    present
        bool (n,), whether there is a block.
    """
    offsets, data = copy_padded(blocks)
    lines = _find_lines(offsets, data)
    if lines is None:
        return _decode_scalar(blocks, present)
    row, key_start, colon, value_start, value_end = lines
    buffer = pa.py_buffer(data.data)
    try:
        keys = gather_spans(buffer, key_start, colon).cast(pa.string())
        values = gather_spans(buffer, value_start, value_end).cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return _decode_scalar(blocks, present)
    return _build_map(row, keys, values, present)


def _find_lines(offsets: Index, data: Bytes) -> tuple[Index, Index, Index, Index, Index] | None:
    """Return row, key start, colon, value start and value end of each header line; None if a block is unusual."""
    feeds = find_byte(data, _LF)
    blocks_end = offsets[1:][offsets[1:] > offsets[:-1]]
    if not (np.all(data[feeds - 1] == _CR) and np.all(data[blocks_end - 1] == _LF)):
        return None
    starts = np.empty(len(feeds), np.int64)
    if len(feeds):
        starts[0] = offsets[0]
        starts[1:] = feeds[:-1] + 1
    row = np.searchsorted(offsets[1:], starts, side="right")
    ends = feeds - 1
    colons = np.append(find_byte(data, _COLON), len(data))
    colon = colons[np.searchsorted(colons, starts)]
    chosen = (starts > offsets[row]) & (colon < ends) & (colon > starts)
    row, starts, ends, colon = row[chosen], starts[chosen], ends[chosen], colon[chosen]
    value = colon + 1
    for _ in range(_BLANKS):
        value += (value < ends) & _is_blank(data[value])
        ends -= (value < ends) & _is_blank(data[ends - 1])
    if np.any((value < ends) & (_is_blank(data[value]) | _is_blank(data[ends - 1]))):
        return None
    return row, starts, colon, value, ends


def _is_blank(byte: Bytes) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = (byte == ord(" ")) | (byte == ord("\t"))
    return blank


def _build_map(row: Index, keys: pa.StringArray, values: pa.StringArray, present: NDArray[np.bool_]) -> pa.MapArray:
    """Group the values of a repeated key of a row, in order of the key's first appearance."""
    count = len(row)
    each = np.arange(count + 1, dtype=np.int32)
    if count:
        codes = keys.dictionary_encode()
        same = row * len(codes.dictionary) + np.asarray(codes.indices)
        first, group, size = np.unique(same, return_index=True, return_inverse=True, return_counts=True)[1:]
        if len(first) < count:
            order = np.argsort(first, kind="stable")
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            values = values.take(pa.array(np.argsort(rank[group], kind="stable"), pa.int64()))
            keys = keys.take(pa.array(first[order], pa.int64()))
            row = row[first[order]]
            each = np.concatenate([[0], np.cumsum(size[order])]).astype(np.int32)
    items = pa.ListArray.from_arrays(pa.array(each, pa.int32()), values).cast(HEADERS_TYPE.item_type)
    offsets = np.zeros(len(present) + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=len(present)), out=offsets[1:])
    mapped = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=pa.array(~present))
    return mapped.cast(HEADERS_TYPE)


def _decode_scalar(blocks: pa.BinaryArray, present: NDArray[np.bool_]) -> pa.MapArray:
    def clean(text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    rows: list[list[tuple[str, list[str]]] | None] = []
    for block, there in zip(blocks.to_pylist(), present, strict=True):
        if not there:
            rows.append(None)
            continue
        row: dict[str, list[str]] = {}
        for key, value in parse_header_block(block).items():
            row.setdefault(clean(key), []).append(clean(value))
        rows.append(list(row.items()))
    return pa.array(rows, HEADERS_TYPE)


def encode_headers(
    headers: pa.Array | None, message_ids: pa.Array | None = None, lines: pa.Array | None = None
) -> pa.BinaryArray | None:
    """Build header blocks.

    Parameters
    ----------
    headers
        `map<string, list<string>>` or `map<string, string>` (n,), or None. A null row has no headers; a key with an
        empty list gives no header.
    message_ids
        string (n,) for `Nats-Msg-Id`, or None; a null row gets no id.
    lines
        string (n,) of whole header lines, each with its line end, or None. They are appended unchanged.

    Returns
    -------
    pa.BinaryArray | None
        Whole blocks, null for a row without headers; None if all three parameters are None.

    Raises
    ------
    BadHeadersError
        A key is empty or has a character other than ASCII 33 to 126 without the colon; a value has CR or LF (WIR-05);
        a value or a list is null. `row` is the row.
    """
    pieces: list[pa.Array] = []
    if headers is not None:
        pieces.append(_map_lines(headers))
    if message_ids is not None:
        ids = message_ids.cast(pa.string())
        _raise_first_wrong(pc.match_substring_regex(ids, _LINE_END), None, "Nats-Msg-Id", VALUE_RULE)
        pieces.append(pc.fill_null(pc.binary_join_element_wise("Nats-Msg-Id: ", ids, "\r\n", ""), ""))
    if lines is not None:
        pieces.append(lines)
    if not pieces:
        return None
    lines = pc.binary_join_element_wise(*pieces, "")
    blocks = pc.binary_join_element_wise("NATS/1.0\r\n", lines, "\r\n", "").cast(pa.binary())
    return pc.if_else(pc.equal(pc.binary_length(lines), 0), pa.scalar(None, pa.binary()), blocks)


def _map_lines(headers: pa.Array) -> pa.Array:
    """Return the `Key: value` lines of each row, an empty string for a row without headers."""
    _check_type(headers.type)
    if headers.null_count:  # a null row may have hidden entries; `take` drops them
        headers = headers.take(pa.array(np.arange(len(headers)), pa.int64()))
    starts = np.asarray(headers.offsets).astype(np.int64)
    starts, base = starts - starts[0], int(starts[0])
    keys = headers.keys.slice(base, int(starts[-1]))
    values = headers.items.slice(base, int(starts[-1]))
    if _is_list(values.type):
        _raise_first_wrong(pc.is_null(values), starts, keys, "the list of values is null")
        parents = pc.list_parent_indices(values)
        lengths = np.asarray(pc.list_value_length(values)).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)])[starts]
        keys, values = keys.take(parents), pc.list_flatten(values)
    keys, values = keys.cast(pa.string()), values.cast(pa.string())
    _raise_first_wrong(pc.is_null(values), starts, keys, "a value is null")
    _raise_first_wrong(pc.invert(pc.match_substring_regex(keys, _KEY)), starts, keys, KEY_RULE)
    _raise_first_wrong(pc.match_substring_regex(values, _LINE_END), starts, keys, VALUE_RULE)
    lines = pc.binary_join_element_wise(keys, ": ", values, "\r\n", "")
    per_row = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), lines)
    return pc.binary_join(per_row, "")


def remove_headers(headers: pa.Array, pattern: str) -> tuple[pa.Array, list[str]]:
    """Remove the headers whose names match a regular expression.

    Parameters
    ----------
    headers
        A map column as for `encode_headers`.

    Returns
    -------
    tuple[pa.Array, list[str]]
        The column without these headers, and their names, each once. The same column if there are none.
    """
    _check_type(headers.type)
    if headers.null_count:  # a null row may have hidden entries; `take` drops them
        headers = headers.take(pa.array(np.arange(len(headers)), pa.int64()))
    starts = np.asarray(headers.offsets).astype(np.int64)
    starts, base = starts - starts[0], int(starts[0])
    keys = headers.keys.slice(base, int(starts[-1]))
    matches = pc.match_substring_regex(keys, pattern)
    names: list[str] = pc.unique(keys.filter(matches)).to_pylist()
    if not names:
        return headers, names
    kept = pc.invert(matches)
    items = headers.items.slice(base, int(starts[-1])).filter(kept)
    counts = np.concatenate([[0], np.cumsum(np.asarray(kept))])
    offsets = pa.array(counts[starts].astype(np.int32))
    null = headers.is_null() if headers.null_count else None
    left = pa.MapArray.from_arrays(offsets, keys.filter(kept), items, mask=null)
    return left.cast(headers.type), names


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _check_type(kind: pa.DataType) -> None:
    def is_text(part: pa.DataType) -> bool:
        return bool(pa.types.is_string(part) or pa.types.is_large_string(part) or pa.types.is_string_view(part))

    if pa.types.is_map(kind):
        item = kind.item_type.value_type if _is_list(kind.item_type) else kind.item_type
        # Arrow infers the type null if there is no value at all.
        if is_text(kind.key_type) and (is_text(item) or pa.types.is_null(item)):
            return
    raise BadHeadersError(f"the headers column must be a map of strings to strings or to lists of strings, not {kind}")


def _raise_first_wrong(wrong: pa.Array, starts: Index | None, keys: pa.Array | str, rule: str) -> None:
    """Raise for the first wrong header. `starts` are the rows' first headers; None means one header per row."""
    hits = np.flatnonzero(np.asarray(pc.fill_null(wrong, False)))
    if len(hits):
        hit = int(hits[0])
        row = hit if starts is None else int(np.searchsorted(starts, hit, side="right")) - 1
        key = keys if isinstance(keys, str) else keys[hit].as_py()
        raise BadHeadersError(f"row {row}, header {key!r}: {rule}", row=row)
