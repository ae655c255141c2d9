"""Reads that decode payloads: the columns to read for them, and their batches and tables."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.scan_report import ScanReport
from jetspark.payload import RowDecoder

__all__ = ["columns_to_read", "decode_batches", "decode_table", "message_schema"]


def message_schema(rows: RowDecoder) -> pa.Schema:
    """Return the columns of messages to read for the rows."""
    return scan_schema(columns_to_read(rows, "sequence"))


def columns_to_read(rows: RowDecoder, position: str) -> tuple[str, ...]:
    """Return the names of the columns to read; with FAILFAST also the one by which the error names the message."""
    return tuple(dict.fromkeys([*rows.message_columns, *((position,) if rows.fails_fast else ())]))


def decode_batches(
    rows: RowDecoder, batches: Generator[pa.RecordBatch], report: ScanReport
) -> Generator[pa.RecordBatch]:
    """Yield the rows of batches of messages or entries; count the bad records."""
    with closing(batches):
        for batch in batches:
            decoded = rows.decode(batch)
            report.bad_records += len(decoded.bad)
            yield decoded.rows


def decode_table(rows: RowDecoder, messages: pa.Table) -> tuple[pa.Table, int]:
    """Return the rows of a table of messages or entries, and the number of bad records."""
    decoded = [rows.decode(batch) for batch in messages.to_batches()]
    table = pa.Table.from_batches([each.rows for each in decoded], rows.schema)
    return table, sum(len(each.bad) for each in decoded)
