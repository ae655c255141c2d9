"""Message ids for rows that have none of their own: the same when a task is repeated, another for another row.

`<job>-<partition>-<row>-<hash>`. Job, partition and row number make the id unique. The hash of the content keeps a
repetition that gives the rows in another order (a shuffle may) from being taken for the first run: a stream drops a
message only when place and content are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import BadHeadersError
from jetspark.jetstream.header_names import MSG_ID
from jetspark.wire.vector.headers import encode_headers

__all__ = ["message_ids"]

HEADERS: Final = "headers"
_HASH_SEED: Final = "PYTHONHASHSEED"


def message_ids(prefix: str, first: int, batch: pa.RecordBatch) -> pa.StringArray:
    """Return the ids of a record batch's rows.

    Parameters
    ----------
    prefix
        Job and partition.
    first
        Number of the first row within the partition.
    batch
        What is published: any of `subject`, `data`, `headers`.
    """
    columns = [_values(column) for column in batch.columns]
    hashes = np.fromiter(map(_content_hash(), zip(*columns, strict=True)), np.int64, len(batch))
    rows = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
    unsigned = pa.array(hashes.view(np.uint64)).cast(pa.string())
    ids = pc.binary_join_element_wise(prefix, rows, unsigned, "-")
    if HEADERS in batch.schema.names:  # an id among a row's own headers stays the only one
        own = pc.map_lookup(batch.column(HEADERS), MSG_ID, "first")
        ids = pc.if_else(pc.is_null(own), ids, pa.scalar(None, pa.string()))
    return ids


def _values(column: pa.Array) -> Sequence[object]:
    if pa.types.is_map(column.type):
        try:
            column = encode_headers(column)
        except BadHeadersError:
            return [None] * len(column)  # none of these rows is going to be sent; publishing says why
    values: Sequence[object] = column.to_pylist()
    return values


def _content_hash() -> Callable[[tuple[object, ...]], int]:
    """The interpreter's hash where every worker has the same seed for it, as Spark sees to; else a slower one."""
    if os.environ.get(_HASH_SEED, "random").isdecimal():
        return hash
    return _digest


def _digest(row: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(repr(row).encode(), digest_size=8).digest(), "little", signed=True)
