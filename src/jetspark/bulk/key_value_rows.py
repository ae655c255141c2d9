"""Rows for a key-value bucket as record batches of messages: subjects, payloads, and the lines of their headers.

All rows of a record batch are checked before any of them is sent. Errors show the row's number and key, but no value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream import header_names as names
from jetspark.jetstream.buckets import MAX_SUBJECT
from jetspark.jetstream.control_headers import CONTROL_HEADER_PATTERN
from jetspark.jetstream.errors import ConfigError, Error, InvalidKeyError
from jetspark.jetstream.key_value.entry import KV_OPERATION, MARKER_HEADERS, KeyValueOperation
from jetspark.jetstream.key_value.names import check_key
from jetspark.jetstream.message_columns import find_entry_write_columns
from jetspark.jetstream.times import format_go_duration, parse_go_duration
from jetspark.wire.vector.headers import remove_headers

__all__ = ["EXPECTED", "LINES", "check_row_types", "messages_of_rows"]

LINES: Final = "header_lines"
"""Column of messages: lines of headers that the operation and the time to live of a row need, string."""
EXPECTED: Final = "expected_revision"
"""Column of messages: the expected revision, int64, null for none."""

_KEY: Final = r"^[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*$"
_RESERVED: Final = "_kv"
_NEVER: Final = "never"
_SECOND: Final = 1_000_000_000
_LEFT_OUT: Final = f"{CONTROL_HEADER_PATTERN}|^{KV_OPERATION}$"

_PUT, _DEL, _PURGE = KeyValueOperation.PUT.value, KeyValueOperation.DELETE.value, KeyValueOperation.PURGE.value
_OPERATIONS: Final = {_PUT: _PUT, _DEL: _DEL, _PURGE: _PURGE, "EXPIRED": _DEL}
"""The operation that is written for each value of the column `operation`."""
_OPERATION_LINES: Final = {
    _PUT: "",
    **{
        operation.value: "".join(f"{name}: {value}\r\n" for name, value in headers)
        for operation, headers in MARKER_HEADERS.items()
    },
}


def check_row_types(schema: pa.Schema) -> None:
    """Check the columns of rows. Raises ConfigError for one that is missing, unknown, or of a wrong type."""
    positions = find_entry_write_columns(schema.names)
    for name in ("key", "value"):
        if name not in positions:
            raise ConfigError(f"the rows have no column {name}; they have {', '.join(schema.names) or 'no column'}")
    for name, at in positions.items():
        kind = schema.field(at).type
        if not _FITS[name](kind):
            raise ConfigError(f"column {name!r} has the type {kind}, which cannot be written into a bucket")


def messages_of_rows(
    rows: pa.RecordBatch, prefix: str, first: int = 0, left_out: set[str] | None = None
) -> pa.RecordBatch:
    """Return the messages that write these rows.

    Parameters
    ----------
    rows
        Any of the columns `key` and `value` (binary or string; null deletes the key), `operation` (`PUT`, `DEL`,
        `PURGE` or `EXPIRED`; the last one deletes), `expected_revision` (null for none, 0 creates the key), `ttl`
        (a duration, or text such as `30s` or `never`), `headers` and `msg_id`.
    prefix
        The subject up to the key.
    first
        Number of the first row, for errors.
    left_out
        Receives the names of headers that are left out because they command the server.

    Returns
    -------
    pa.RecordBatch
        `subject`, `data`, and those of `headers`, `msg_id`, `header_lines` and `expected_revision` that are needed.

    Raises
    ------
    InvalidKeyError
        A key is null or cannot be used.
    ConfigError
        An operation, an expected revision or a time to live cannot be used.
    """
    keys = _text(rows.column("key"))
    _check_keys(keys, prefix, first)
    values = rows.column("value").cast(pa.binary())
    operations = _operations(rows, keys, values, first)
    expected = _expected_revisions(rows, keys, operations, first)
    ttl_lines = _ttl_lines(rows, keys, operations, expected, first)
    columns = {"subject": pc.binary_join_element_wise(prefix, keys, ""), "data": values}
    if operations is not None:
        columns["data"] = pc.if_else(pc.equal(operations, _PUT), values, pa.scalar(b"", pa.binary()))
        lines = _lookup(operations, lambda operation: _OPERATION_LINES[operation])
        columns[LINES] = lines if ttl_lines is None else pc.binary_join_element_wise(lines, ttl_lines, "")
    elif ttl_lines is not None:
        columns[LINES] = ttl_lines
    if expected is not None:
        columns[EXPECTED] = expected
    if "headers" in rows.schema.names:
        columns["headers"], found = remove_headers(rows.column("headers"), _LEFT_OUT)
        if left_out is not None:
            left_out.update(found)
            left_out.discard(KV_OPERATION)  # the column `operation` says it
    if "msg_id" in rows.schema.names:
        columns["msg_id"] = _text(rows.column("msg_id"))
    return pa.record_batch(columns)


def _check_keys(keys: pa.StringArray, prefix: str, first: int) -> None:
    good = pc.and_(
        pc.match_substring_regex(keys, _KEY),
        pc.and_(
            pc.invert(pc.starts_with(keys, _RESERVED)),
            pc.less_equal(pc.binary_length(keys), MAX_SUBJECT - len(prefix)),
        ),
    )
    row = _first(pc.invert(pc.fill_null(good, False)))
    if row is None:
        return
    key = keys[row].as_py()
    if key is None:
        raise InvalidKeyError(f"row {first + row}: the key is null")
    try:
        check_key(key, prefix, writing=True)
    except Error as error:
        error.args = (f"row {first + row}: {error}",)
        raise


def _operations(
    rows: pa.RecordBatch, keys: pa.StringArray, values: pa.BinaryArray, first: int
) -> pa.StringArray | None:
    """Return what each row does: `PUT`, `DEL` or `PURGE`; None if all rows put a value."""
    by_value = None
    if values.null_count:
        by_value = pc.if_else(pc.is_null(values), pa.scalar(_DEL), pa.scalar(_PUT))
    if "operation" not in rows.schema.names:
        return by_value
    given = _text(rows.column("operation"))
    if given.null_count == len(given):
        return by_value
    known = pa.array(list(_OPERATIONS))
    wrong = pc.and_(pc.is_valid(given), pc.invert(pc.is_in(given, known)))
    if (row := _first(wrong)) is not None:
        raise _wrong(first, keys, row, f"the operation must be {', '.join(_OPERATIONS)} or null")
    if (row := _first(pc.and_(pc.equal(given, _PUT), pc.is_null(values)))) is not None:
        raise _wrong(first, keys, row, "operation PUT needs a value; a null value deletes the key")
    meant = _lookup(given, _OPERATIONS.get)
    meant = pc.coalesce(meant, pa.scalar(_PUT) if by_value is None else by_value)
    return meant if pc.any(pc.not_equal(meant, _PUT), min_count=0).as_py() else None


def _expected_revisions(
    rows: pa.RecordBatch, keys: pa.StringArray, operations: pa.StringArray | None, first: int
) -> pa.Int64Array | None:
    if EXPECTED not in rows.schema.names:
        return None
    try:
        expected = rows.column(EXPECTED).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise ConfigError(f"column {EXPECTED}: {error}") from None
    if expected.null_count == len(expected):
        return None
    if (row := _first(pc.less(expected, 0))) is not None:
        raise _wrong(first, keys, row, f"expected_revision must be 0 or more, not {expected[row].as_py()}")
    if operations is not None:
        deletes = pc.and_(pc.equal(expected, 0), pc.not_equal(operations, _PUT))
        if (row := _first(deletes)) is not None:
            raise _wrong(
                first, keys, row, "expected_revision 0 creates a key, so it cannot delete one; give its revision"
            )
    return expected


def _ttl_lines(
    rows: pa.RecordBatch,
    keys: pa.StringArray,
    operations: pa.StringArray | None,
    expected: pa.Int64Array | None,
    first: int,
) -> pa.StringArray | None:
    if "ttl" not in rows.schema.names or rows.column("ttl").null_count == len(rows):
        return None
    ttl = rows.column("ttl")
    ttl = _text(ttl) if _is_text(ttl.type) else ttl.cast(pa.duration("us"), safe=False).cast(pa.int64())
    creates = pa.scalar(False) if expected is None else pc.fill_null(pc.equal(expected, 0), False)
    purges = pa.scalar(False) if operations is None else pc.equal(operations, _PURGE)
    takes = pc.or_(creates, purges)
    wrong = pc.is_valid(ttl) if isinstance(takes, pa.Scalar) else pc.and_(pc.is_valid(ttl), pc.invert(takes))
    if (row := _first(wrong)) is not None:
        raise _wrong(first, keys, row, "only a row with expected_revision 0 or operation PURGE can have a ttl")
    try:
        return pc.fill_null(_lookup(ttl, _ttl_line), "")
    except _BadTTLError as error:
        row = pc.index(ttl, pa.scalar(error.value, ttl.type)).as_py()
        raise _wrong(first, keys, row, error.rule) from None


class _BadTTLError(Exception):
    def __init__(self, value: object, rule: str) -> None:
        self.value = value
        self.rule = rule


def _ttl_line(ttl: str | int | None) -> str | None:
    """Return the header line of a time to live, text or microseconds."""
    if ttl is None:
        return None
    if ttl == _NEVER:
        text = _NEVER
    else:
        try:
            ns = parse_go_duration(ttl) if isinstance(ttl, str) else ttl * 1000
        except ValueError:
            raise _BadTTLError(ttl, "ttl must be a duration such as 30s or 1h30m, or never") from None
        if ns < _SECOND:
            raise _BadTTLError(ttl, f"ttl is at least a second, not {format_go_duration(ns)}")
        seconds, below = divmod(ns, _SECOND)
        text = format_go_duration(ns) if below else str(seconds)
    return f"{names.TTL}: {text}\r\n"


def _lookup(column: pa.Array, result: Callable[[Any], str | None]) -> pa.StringArray:
    """Return the result for each value; it is called once for each different one."""
    codes = column.dictionary_encode()
    results = pa.array([result(value) for value in codes.dictionary.to_pylist()], pa.string())
    return results.take(codes.indices)


def _first(wrong: pa.BooleanArray) -> int | None:
    """Return the first row for which this is true."""
    hits = np.flatnonzero(np.asarray(pc.fill_null(wrong, False)))
    return int(hits[0]) if len(hits) else None


def _wrong(first: int, keys: pa.StringArray, row: int, rule: str) -> ConfigError:
    return ConfigError(f"row {first + row} (key {keys[row].as_py()!r}): {rule}")


def _text(column: pa.Array) -> pa.StringArray:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _is_text(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text or pa.types.is_null(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(binary or pa.types.is_fixed_size_binary(kind)) or _is_text(kind)


_FITS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "key": _is_text,
    "value": _is_bytes,
    "operation": _is_text,
    EXPECTED: lambda kind: bool(pa.types.is_integer(kind) or pa.types.is_null(kind)),
    "ttl": lambda kind: bool(pa.types.is_duration(kind)) or _is_text(kind),
    "headers": lambda kind: bool(pa.types.is_map(kind)),
    "msg_id": _is_text,
}
