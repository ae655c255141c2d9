"""Many keys are written from columns of any library."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.api.key_value.buckets import make_bucket
from tests.fronts import Ground

from jetspark.aio.jetstream import KeyValue
from jetspark.errors import (
    ArgumentError,
    BucketNotFoundError,
    ConfigError,
    InvalidKeyError,
    KeyExistsError,
    ValueTooLargeError,
    WrongLastRevisionError,
)
from jetspark.jetstream import StreamSource

ROWS = {"key": ["a", "b", "c"], "value": [b"1", None, b""]}


async def contents(bucket: KeyValue) -> list[tuple[Any, ...]]:
    table = (await bucket.to_arrow(include_deletes=True, columns=["key", "value", "operation"])).table
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.profiles
@pytest.mark.blocking
async def test_columns_are_written_and_null_deletes(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=2)
    report = await bucket.put_many(pa.record_batch(ROWS))
    assert (report.count, report.first_sequence, report.last_sequence) == (3, 1, 3)
    assert await contents(bucket) == [("a", b"1", "PUT"), ("b", None, "DEL"), ("c", b"", "PUT")]
    more = {"key": ["a", "b", "a"], "value": ["2", "3", "4"], "expected_revision": [1, None, None]}
    assert (await bucket.put_many(pa.table(more))).count == 3
    assert [entry.value for entry in await bucket.history("a")] == [b"2", b"4"]
    assert (await bucket.get("b")).value == b"3"


async def test_frames_and_a_read_of_another_bucket_are_written(ground: Ground) -> None:
    bucket, copy = await make_bucket(ground), await make_bucket(ground)
    await bucket.put_many(pl.DataFrame(ROWS))
    await bucket.put_many(pd.DataFrame({"key": ["d"], "value": ["4"]}))
    everything = await bucket.to_arrow(include_deletes=True)
    assert (await copy.put_many(everything)).count == 4
    assert await contents(copy) == await contents(bucket)
    async with bucket.scan() as batches:
        rows = await batches.read_all()
    assert (await copy.put_many(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()))).count == 3
    assert (await copy.put_many(rows.slice(0, 0))).count == 0


async def test_keys_are_created_with_a_time_to_live_and_purged_by_columns(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=3, limit_marker_ttl=timedelta(minutes=1))
    created = {"key": ["a", "b"], "value": [b"1", b"2"], "expected_revision": [0, 0], "ttl": ["90s", "never"]}
    await bucket.put_many(pa.table(created))
    assert (await bucket.get("a")).headers["Nats-TTL"] == "90"
    await bucket.put_many(pa.table({"key": ["a"], "value": [None], "operation": ["PURGE"]}))
    assert [entry.operation for entry in await bucket.history("a")] == ["PURGE"]
    with pytest.raises(KeyExistsError):
        await bucket.put_many(pa.table({"key": ["b"], "value": [b"3"], "expected_revision": [0]}))


async def test_columns_that_cannot_be_written_are_refused_before_the_first_row(ground: Ground) -> None:
    bucket = await make_bucket(ground, max_value_size=300)
    good = [f"k{number}" for number in range(70_000)]
    with pytest.raises(InvalidKeyError, match="row 70000"):
        await bucket.put_many(pa.table({"key": [*good, "a b"], "value": ["x"] * 70_001}))
    with pytest.raises(ConfigError, match="no column value"):
        await bucket.put_many(pa.table({"key": ["a"]}))
    with pytest.raises(ConfigError, match="there is no column data"):
        await bucket.put_many(pa.table({"key": ["a"], "value": ["x"], "data": ["x"]}))
    with pytest.raises(ConfigError, match="columns have a column expected_revision"):
        await bucket.put_many(pa.table(ROWS), atomic=True)
    with pytest.raises(ConfigError, match="columns have a column expected_revision"):
        await bucket.put_many(pa.table(ROWS), revisions={"a": 1})
    with pytest.raises(ArgumentError, match="or an ArrowStream, not list of str"):
        await bucket.put_many(["a"])  # type: ignore[call-overload]
    with pytest.raises(ValueTooLargeError):
        await bucket.put_many(pa.table({"key": ["a", "b"], "value": ["x", "y" * 301]}))
    assert (await bucket.status()).values == 0


async def test_a_conflict_of_a_row_is_raised_with_its_key(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    await bucket.put("a", b"1")
    await bucket.put("a", b"2")
    with pytest.raises(WrongLastRevisionError) as caught:
        await bucket.put_many(pa.table({"key": ["a"], "value": [b"secret"], "expected_revision": [1]}))
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("a", 1, 2)
    assert "secret" not in str(caught.value)


async def test_columns_of_a_mirror_go_to_its_origin(ground: Ground) -> None:
    origin = await make_bucket(ground)
    mirror = await make_bucket(ground, mirror=StreamSource(origin.bucket))
    assert (await mirror.put_many(pa.table(ROWS))).count == 3
    assert (await origin.get("a")).value == b"1"
    await ground.js.delete_key_value(origin.bucket)
    with pytest.raises(BucketNotFoundError):
        await mirror.put_many(pa.table(ROWS))
