"""Message ids for rows without one: unique for each row, and the same if a task is repeated.

The format is `<job>-<partition>-<row>-<hash>`. In a streaming query, the query and its micro-batch replace the job. The
row number makes the id unique. The hash of the content is for repeated tasks that return their rows in another order,
for example after a shuffle: a stream drops a message only if both position and content are the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.engine.key_value_write import ROUND
from jetspark.jetstream.errors import BadHeadersError
from jetspark.jetstream.header_names import MSG_ID
from jetspark.wire.untrusted import parse_number
from jetspark.wire.vector.headers import encode_headers

__all__ = ["add_message_ids", "effective_ids", "is_later_id", "message_ids", "original_ids"]

COLUMN: Final = "msg_id"
HEADERS: Final = "headers"
_HASH_SEED: Final = "PYTHONHASHSEED"
_DIGEST_BYTES: Final = 8
_LATER_ROUND: Final = f"{ROUND}[0-9]+$"


def add_message_ids(prefix: str, first: int, batch: pa.RecordBatch, *, stable: bool = False) -> pa.RecordBatch:
    """Return a record batch in which every row has a message id. Existing ids are kept. See `message_ids`."""
    if COLUMN not in batch.schema.names:
        return batch.append_column(COLUMN, message_ids(prefix, first, batch, stable=stable))
    own = batch.column(COLUMN)
    if not own.null_count:
        return batch
    made = message_ids(prefix, first, batch.drop_columns(COLUMN), stable=stable)
    return batch.set_column(batch.schema.get_field_index(COLUMN), COLUMN, pc.coalesce(own.cast(pa.string()), made))


def message_ids(prefix: str, first: int, batch: pa.RecordBatch, *, stable: bool = False) -> pa.StringArray:
    """Return the ids of a record batch's rows.

    Parameters
    ----------
    prefix
        First part of the ids: job and partition.
    first
        Number of the first row within the partition.
    batch
        Published columns: `subject`, `data`, `headers` and others.
    stable
        Whether the ids must be the same in another Spark session and another Python. That takes half a microsecond
        more for each row.
    """
    rows = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
    # The interpreter's hash is the same in all workers if they have a common seed, which Spark sets.
    seeded = os.environ.get(_HASH_SEED, "random").isdecimal()
    hashes = _hashes(batch) if seeded and not stable else _digests(batch)
    unsigned = pa.array(hashes.view(np.uint64)).cast(pa.string())
    ids = pc.binary_join_element_wise(prefix, rows, unsigned, "-")
    if HEADERS in batch.schema.names:  # a row with an id in its headers gets no other one
        ids = pc.if_else(pc.is_null(_header_ids(batch)), ids, pa.scalar(None, pa.string()))
    return ids


def effective_ids(batch: pa.RecordBatch) -> pa.StringArray:
    """Return the ids that the rows are published with: from the column `msg_id`, else from the headers."""
    ids = batch.column(COLUMN).cast(pa.string())
    return pc.coalesce(ids, _header_ids(batch)) if HEADERS in batch.schema.names else ids


def is_later_id(prefix: str, found: str, ours: str) -> bool:
    """Return whether `found` is the id of a later row of the same task than `ours`, both by `message_ids`."""
    start = f"{prefix}-"
    if not (found.startswith(start) and ours.startswith(start)):
        return False
    later, row = (parse_number(each.removeprefix(start).partition("-")[0]) for each in (found, ours))
    return later is not None and row is not None and later > row


def original_ids(ids: pa.StringArray) -> pa.StringArray:
    """Return the ids without the number of a later try, which the ids of a bucket's messages may have."""
    return pc.replace_substring_regex(ids, _LATER_ROUND, "")


def _header_ids(batch: pa.RecordBatch) -> pa.StringArray:
    found = pc.map_lookup(batch.column(HEADERS), MSG_ID, "first")
    return found if pa.types.is_string(found.type) else pc.list_element(_never_empty(found), 0)


def _never_empty(lists: pa.ListArray) -> pa.ListArray:
    """Return the lists with null instead of each empty one."""
    return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, lists.type), lists)


def _hashes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    columns = [_values(column) for column in batch.columns]
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(batch))


def _values(column: pa.Array) -> Sequence[object]:
    values: Sequence[object] = _bytes(column).to_pylist()
    return values


def _digests(batch: pa.RecordBatch) -> NDArray[np.int64]:
    pieces: list[pa.Array] = []
    for column in map(_bytes, batch.columns):
        # The lengths distinguish `ab` and `` from `a` and `b`, and null from an empty value.
        length = pc.fill_null(pc.binary_length(column).cast(pa.string()), "-")
        pieces += [length.cast(pa.binary()), pc.fill_null(column, b"")]
    whole = pc.binary_join_element_wise(*pieces, b" ").to_pylist()
    digests = b"".join([blake2b(row, digest_size=_DIGEST_BYTES).digest() for row in whole])
    return np.frombuffer(digests, "<i8").astype(np.int64)


def _bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_map(column.type):
        try:
            column = encode_headers(column)
        except BadHeadersError:
            return pa.nulls(len(column), pa.binary())  # these rows are not sent: publishing raises the error
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())
