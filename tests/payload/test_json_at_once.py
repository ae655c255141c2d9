"""Payloads that are decoded many at once become the same rows as those that are decoded row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.payload.json_cases import JsonCases

from jetspark.payload import BadRecord, make_format
from jetspark.payload.json.format import JsonFormat

OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"timeZone": "Europe/Berlin"},
    {"maxNumLen": "5", "maxNestingDepth": "2", "maxStringLen": "4"},
    {"dateFormat": "yyyy-MM-dd[ HH]", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[XXX]"},
    {"timestampNTZFormat": "yyyy-MM-dd HH:mm:ss[.S]", "enableDateTimeParsingFallback": "true"},
)


def batch_of(seed: int, count: int) -> tuple[JsonFormat, pa.BinaryArray]:
    """Payloads for a schema, some of them null, as a slice of a column."""
    cases = JsonCases(seed)
    schema = cases.schema()
    rows: list[bytes | None] = list(cases.payloads(schema, count))
    rows[seed % 7 :: 7] = [None] * len(rows[seed % 7 :: 7])
    form = make_format("json", schema, OPTIONS[seed % len(OPTIONS)])
    assert isinstance(form, JsonFormat)
    return form, pa.array([b"{}", *rows], pa.binary()).slice(1)


def cell(column: pa.Array, row: int) -> str:
    """Text of a value: -0.0 and 0.0 differ, NaN equals itself, and times may be beyond those of Python."""
    try:
        return repr(column[row].as_py())
    except (OverflowError, ValueError):
        return str(column[row].cast(pa.int64()) if pa.types.is_timestamp(column.type) else column.slice(row, 1))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_payloads_decoded_at_once_are_those_decoded_row_by_row(seed: int) -> None:
    form, payloads = batch_of(seed, 12)
    bad: list[BadRecord] = []
    expected = form._row_by_row(payloads, np.arange(len(payloads)), 0, bad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jetspark.payload.json.format._PIECE_ROWS", 5)
        decoded = form.decode(payloads)
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == form.schema
    for found, column in zip(decoded.rows.columns, expected, strict=True):
        assert [cell(found, row) for row in range(len(found))] == [cell(column, row) for row in range(len(column))]
    assert list(decoded.bad) == bad


def test_the_cases_are_decoded_in_both_ways() -> None:
    total = unread = 0
    for seed in range(0, 200, len(OPTIONS)):
        form, payloads = batch_of(seed, 12)
        total += len(payloads)
        unread += len(form._fast.decode(payloads, 10_000)[1])
    assert 0.1 < unread / total < 0.9
