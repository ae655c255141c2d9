"""Payloads that are decoded many at once become the same rows as those that are decoded row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.payload.json_cases import JsonCases
from tests.payload.plain_values import plain_values

from jetspark.payload import BadRecord, make_format
from jetspark.payload.json.format import JsonFormat

LIMITS: tuple[dict[str, str], ...] = ({}, {}, {"maxNumLen": "5", "maxStringLen": "4"})


def batch_of(seed: int, count: int) -> tuple[JsonFormat, pa.BinaryArray]:
    """Payloads for a schema, some of them null, as a slice of a column."""
    cases = JsonCases(seed)
    schema = cases.schema()
    rows: list[bytes | None] = list(cases.payloads(schema, count))
    rows[seed % 7 :: 7] = [None] * len(rows[seed % 7 :: 7])
    form = make_format("json", schema, cases.options() | LIMITS[seed % len(LIMITS)])
    assert isinstance(form, JsonFormat)
    return form, pa.array([b"{}", *rows], pa.binary()).slice(1)


@settings(max_examples=80, deadline=None)
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
        assert plain_values(found) == plain_values(column)
    assert list(decoded.bad) == bad


def test_the_cases_are_decoded_in_both_ways() -> None:
    total = unread = 0
    for seed in range(50):
        form, payloads = batch_of(seed, 12)
        total += len(payloads)
        unread += len(form._fast.decode(payloads, 10_000)[1]) if form._fast.usable else len(payloads)
    assert 0.1 < unread / total < 0.9
