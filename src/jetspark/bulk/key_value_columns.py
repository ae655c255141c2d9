"""Entries of a key-value bucket as Arrow columns, made from the columns of its messages.

The headers of an entry say which operation it is; `jetspark.jetstream.key_value.entry.read_operation` has the rule for
one entry. Here the headers of all rows are searched at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.jetstream import header_names as names
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.key_value.entry import KV_OPERATION, read_operation
from jetspark.jetstream.message_columns import ENTRY_READABLE, find_entry_column
from jetspark.wire.headers import Headers
from jetspark.wire.vector.headers import HEADERS_TYPE

__all__ = ["EntryColumns", "read_operations"]

_PUT: Final = "PUT"
_EXPIRED: Final = "EXPIRED"
_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.string(),
    "value": pa.binary(),
    "revision": pa.int64(),
    "operation": pa.string(),
    "headers": HEADERS_TYPE,
}
_TIMES: Final = {"ns": "timestamp_ns", "us": "timestamp"}
_SOURCES: Final = {"key": ("subject",), "value": ("data", "headers"), "revision": ("sequence",)}
_Codes = NDArray[np.int8]


@dataclass(frozen=True)
class EntryColumns:
    """The conversion of record batches of messages to record batches of entries.

        entries = EntryColumns("$KV.users.", ("key", "value"))
        for batch in bulk.scan(connection, "KV_users", columns=entries.message_columns):
            rows = entries.convert(batch)

    Parameters
    ----------
    prefix
        The subject of a stored entry, up to its key.
    columns
        Columns to return: any of `key` (string), `value` (binary; null for markers), `revision` (int64), `created`
        (timestamp, UTC), `operation` (string: `PUT`, `DEL`, `PURGE` or `EXPIRED`) and `headers`. None means all.
    include_deletes
        Whether to return markers: the entries whose operation is not `PUT`.
    time_unit
        Unit of `created`: `ns` or `us`.

    Raises
    ------
    ConfigError
        A column is unknown, or `columns` is empty.
    """

    prefix: str
    columns: Sequence[str] | None = None
    include_deletes: bool = True
    time_unit: Literal["ns", "us"] = "ns"

    def __post_init__(self) -> None:
        """Check the columns."""
        if self.columns is not None and not self.columns:
            raise ConfigError("columns is empty; name at least one column, or give None for all columns")
        for name in self.columns or ():
            find_entry_column(name, "read", any_case=False)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the entries."""
        types = {**_TYPES, "created": pa.timestamp(self.time_unit, tz="UTC")}
        return pa.schema([(name, types[name]) for name in self._names])

    @property
    def message_columns(self) -> tuple[str, ...]:
        """Columns of the messages that `convert` needs, for `scan` and `last_per_subject`."""
        sources = {**_SOURCES, "created": (_TIMES[self.time_unit],)}
        found = [column for name in self._names for column in sources.get(name, ("headers",))]
        return tuple(dict.fromkeys(found if self.include_deletes else [*found, "headers"]))

    def convert(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries that messages are. `messages` has `message_columns`, and may have others."""
        operations = puts = None
        if "headers" in self.message_columns:
            codes = _operation_codes(messages.column("headers"))
            if codes.any():
                puts = pa.array(codes == 0)
                if not self.include_deletes:
                    messages = messages.filter(puts)
                    codes, puts = codes[codes == 0], None
            operations = _operation_names(codes)
        columns = [self._column(name, messages, operations, puts) for name in self._names]
        return pa.record_batch(columns, schema=self.schema)

    def convert_table(self, messages: pa.Table) -> pa.Table:
        """As `convert`, for a table."""
        return pa.Table.from_batches([self.convert(batch) for batch in messages.to_batches()], self.schema)

    @property
    def _names(self) -> Sequence[str]:
        return ENTRY_READABLE if self.columns is None else self.columns

    def _column(
        self, name: str, messages: pa.RecordBatch, operations: pa.StringArray | None, puts: pa.BooleanArray | None
    ) -> pa.Array:
        if name == "key":
            return _without_prefix(messages.column("subject"), self.prefix)
        if name == "value":
            values = messages.column("data")
            return values if puts is None else pc.if_else(puts, values, pa.scalar(None, values.type))
        if name == "created":
            return messages.column(_TIMES[self.time_unit]).view(pa.timestamp(self.time_unit, tz="UTC"))
        if name == "operation":
            return operations
        return messages.column("sequence" if name == "revision" else "headers")


def read_operations(headers: pa.MapArray) -> pa.StringArray:
    """Return what the entries with these headers did: `PUT`, `DEL`, `PURGE`, or `EXPIRED`.

    Parameters
    ----------
    headers
        `map<string, list<string>>`, as in the column `headers` of a scan.
    """
    return _operation_names(_operation_codes(headers))


def _scalar_operation(header: str, value: str) -> str:
    operation, expired = read_operation(Headers([(header, value)]))
    return _EXPIRED if expired else operation.value


_OPERATIONS: Final = (_PUT, "DEL", "PURGE", _EXPIRED)
_KNOWN: Final = {names.MARKER_REASON: ("MaxAge", "Purge", "Remove"), KV_OPERATION: ("DEL", "PURGE")}
"""Values of the headers that differ in what they mean, and other values. The second header takes precedence."""


def _operation_codes(headers: pa.MapArray) -> _Codes:
    """Return the operation of each row as a position in `_OPERATIONS`."""
    codes = np.zeros(len(headers), np.int8)
    if headers.null_count == len(headers):
        return codes
    if headers.null_count:  # a null row may have hidden entries; `take` drops them
        headers = headers.take(pa.array(np.arange(len(headers)), pa.int64()))
    starts = np.asarray(headers.offsets).astype(np.int64)
    starts, base = starts - starts[0], int(starts[0])
    keys = headers.keys.slice(base, int(starts[-1]))
    items = headers.items.slice(base, int(starts[-1]))
    for header, values in _KNOWN.items():
        hits = np.flatnonzero(np.asarray(pc.equal(keys, header)))
        if not len(hits):
            continue
        lists = items.take(pa.array(hits, pa.int64()))
        filled = np.asarray(pc.fill_null(pc.greater(pc.list_value_length(lists), 0), False))
        hits, firsts = hits[filled], pc.list_element(lists.filter(pa.array(filled)), 0)
        row = np.searchsorted(starts, hits, side="right") - 1
        meant = np.full(len(hits), _code(header, ""), np.int8)
        for value in values:
            meant[np.asarray(pc.fill_null(pc.equal(firsts, value), False))] = _code(header, value)
        codes[row[::-1]] = meant[::-1]  # of a repeated header, the first counts
    return codes


def _code(header: str, value: str) -> int:
    return _OPERATIONS.index(_scalar_operation(header, value))


def _operation_names(codes: _Codes) -> pa.StringArray:
    return (
        pa.array(_OPERATIONS, pa.string()).take(pa.array(codes))
        if codes.any()
        else pa.repeat(pa.scalar(_PUT), len(codes))
    )


def _without_prefix(subjects: pa.StringArray, prefix: str) -> pa.StringArray:
    keys = pc.utf8_slice_codeunits(subjects, len(prefix))
    begins = pc.starts_with(subjects, prefix)
    return keys if pc.all(begins, min_count=0).as_py() else pc.if_else(begins, keys, subjects)
