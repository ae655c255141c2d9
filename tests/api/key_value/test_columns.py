"""A bucket as Arrow columns: its entries at one moment, or all revisions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from tests.api.key_value.buckets import make_bucket
from tests.fronts import Ground

from jetspark.aio.jetstream import KeyValue
from jetspark.bulk import EntryTable
from jetspark.errors import BucketNotFoundError, ConfigError, InvalidKeyError, RevisionError

SHORT = ("key", "value", "revision", "operation")


async def filled(ground: Ground) -> KeyValue:
    """A bucket with a.x at revision 4, a.y deleted at 5, and b at 3."""
    bucket = await make_bucket(ground, history=3)
    await bucket.put_many({"a.x": b"1", "a.y": b"2", "b": b""})
    await bucket.put("a.x", b"3")
    await bucket.delete("a.y")
    return bucket


def rows(entries: EntryTable) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in entries.table.to_pylist()]


@pytest.mark.profiles
@pytest.mark.blocking
async def test_the_entries_of_one_moment_are_a_table(ground: Ground) -> None:
    bucket = await filled(ground)
    entries = await bucket.to_arrow()
    assert entries.table.column_names == ["key", "value", "revision", "created", "operation", "headers"]
    assert (entries.table["key"].to_pylist(), entries.revision) == (["b", "a.x"], 5)
    assert entries.table["created"].to_pylist()[1].to_pydatetime(warn=False) <= datetime.now(UTC)
    assert entries.table["created"][1].value == (await bucket.get("a.x")).created_ns
    assert rows(await bucket.to_arrow(include_deletes=True, columns=SHORT)) == [
        ("b", b"", 3, "PUT"),
        ("a.x", b"3", 4, "PUT"),
        ("a.y", None, 5, "DEL"),
    ]
    assert rows(await bucket.to_arrow("a.*", columns=["revision"])) == [(4,)]
    frame = entries.to_pandas()
    assert frame[["key", "revision"]].to_dict("list") == {"key": ["b", "a.x"], "revision": [3, 4]}
    assert entries.to_polars().select("key", "value").rows() == [("b", b""), ("a.x", b"3")]
    assert pl.DataFrame(entries)["operation"].to_list() == ["PUT", "PUT"]


@pytest.mark.blocking
async def test_all_revisions_are_a_table(ground: Ground) -> None:
    bucket = await filled(ground)
    entries = await bucket.to_arrow(history=True, columns=SHORT)
    assert (rows(entries), entries.revision) == (
        [
            ("a.x", b"1", 1, "PUT"),
            ("a.y", b"2", 2, "PUT"),
            ("b", b"", 3, "PUT"),
            ("a.x", b"3", 4, "PUT"),
            ("a.y", None, 5, "DEL"),
        ],
        5,
    )
    some = await bucket.to_arrow("a.>", "*.x", history=True, include_deletes=False, columns=["revision"])
    assert rows(some) == [(1,), (2,), (4,)]
    assert rows(await bucket.to_arrow(history=True, start_revision=2, at_revision=4, columns=["revision"])) == [
        (2,),
        (3,),
        (4,),
    ]


async def test_the_entries_of_an_earlier_moment_are_read_as_far_as_the_history_reaches(ground: Ground) -> None:
    bucket = await filled(ground)
    before = await bucket.to_arrow(at_revision=3, columns=SHORT)
    assert (rows(before), before.revision) == (
        [("a.x", b"1", 1, "PUT"), ("a.y", b"2", 2, "PUT"), ("b", b"", 3, "PUT")],
        3,
    )
    assert rows(await bucket.to_arrow(at_revision=5, columns=["key"])) == rows(await bucket.to_arrow(columns=["key"]))
    assert rows(await bucket.to_arrow("a.y", at_revision=5)) == []
    assert before.table["value"].to_pylist() == [
        entry.value for entry in (await bucket.get_many(at_revision=3)).values()
    ]


@pytest.mark.blocking
async def test_record_batches_of_entries_are_an_arrow_stream(ground: Ground) -> None:
    bucket = await filled(ground)
    async with bucket.scan(history=True, columns=["revision"], max_batch_rows=2) as batches:
        sizes = [batch.num_rows async for batch in batches]
        assert (sum(sizes), max(sizes)) == (5, 2)
        assert batches.report.complete
    async with bucket.scan(columns=["key", "revision"], max_batch_rows=1) as batches:
        found = [batch.to_pylist() async for batch in batches]
        assert found == [[{"key": "b", "revision": 3}], [{"key": "a.x", "revision": 4}]]
        assert (batches.report.complete, batches.report.received) == (True, 2)
    batches = bucket.scan("b", columns=["key", "operation"])
    stream = batches.inner if hasattr(batches, "inner") else batches.reader
    reader = await asyncio.to_thread(pa.RecordBatchReader.from_stream, stream)
    assert duckdb.from_arrow(reader).fetchall() == [("b", "PUT")]
    await batches.close()


async def test_expired_and_purged_keys_are_told_apart(ground: Ground) -> None:
    bucket = await make_bucket(ground, limit_marker_ttl=timedelta(minutes=1))
    await bucket.create("short", b"1", ttl=timedelta(seconds=1))
    await bucket.put("old", b"2")
    await bucket.purge("old")

    async with await bucket.watch("short") as watch:
        while (entry := await watch.next(30)) is None or not entry.expired:
            pass
    found = await bucket.to_arrow(include_deletes=True, columns=["key", "operation", "value"])
    assert rows(found) == [("old", "PURGE", None), ("short", "EXPIRED", None)]
    assert rows(await bucket.to_arrow()) == []


async def test_an_empty_bucket_is_a_table_without_rows(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    for history in (False, True):
        entries = await bucket.to_arrow(history=history, columns=SHORT)
        assert (entries.table.column_names, rows(entries), entries.revision) == (list(SHORT), [], 0)
        assert (await bucket.scan(history=history).read_all()).num_rows == 0


async def test_a_wrong_read_of_columns_is_refused(ground: Ground) -> None:
    bucket = await filled(ground)
    with pytest.raises(InvalidKeyError):
        await bucket.to_arrow("a*")
    with pytest.raises(ConfigError, match="did you mean value"):
        bucket.scan(columns=["data"])
    with pytest.raises(ConfigError, match="start_revision is given without history"):
        bucket.scan(start_revision=2)
    with pytest.raises(ConfigError, match="must be positive"):
        await bucket.to_arrow(at_revision=0)
    with pytest.raises(ConfigError, match="must be positive"):
        bucket.scan(start_revision=-1, history=True)
    with pytest.raises(ConfigError, match="max_batch_rows"):
        bucket.scan(max_batch_rows=0)
    for history in (False, True):
        with pytest.raises(RevisionError) as caught:
            await bucket.to_arrow(history=history, at_revision=6)
        assert (caught.value.revision, caught.value.last) == (6, 5)
    await ground.js.delete_key_value(bucket.bucket)
    for history in (False, True):
        with pytest.raises(BucketNotFoundError):
            await bucket.to_arrow(history=history)
        with pytest.raises(BucketNotFoundError):
            await bucket.scan(history=history).read_all()
