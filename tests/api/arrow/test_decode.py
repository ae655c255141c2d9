"""Payloads as columns, on both fronts: of a stream, of a consumer, of a bucket."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.api.key_value.buckets import make_bucket
from tests.fronts import Ground

from jetspark.errors import ArgumentError, ConfigError, PayloadError
from jetspark.payload import DecodeOptions, text_format

TEXT = text_format(pa.schema([pa.field("line", pa.string())]))
STRICT = DecodeOptions(TEXT, "FAILFAST", "_")


@pytest.mark.blocking
async def test_a_stream_and_its_consumers_are_read_as_typed_columns(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"one", b"\xff", b"two")
    async with stream.scan(columns=["sequence", "data"], decode=TEXT) as batches:
        assert (await batches.read_all()).to_pydict() == {"sequence": [1, 2, 3], "line": ["one", None, "two"]}
        assert batches.report.bad_records == 1
    async with stream.scan(columns=["data"], decode=STRICT) as batches:
        with pytest.raises(PayloadError, match="sequence 2: the payload is not UTF-8"):
            await batches.read_all()
    snapshot = await stream.last_per_subject(columns=["sequence", "data"], decode=STRICT)
    assert snapshot.table.to_pydict() == {"_sequence": [3], "line": ["two"]}
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit")
    async with consumer.fetch_arrow(3, columns=["data"], decode=STRICT) as fetched:
        with pytest.raises(PayloadError, match="sequence 2: the payload is not UTF-8"):
            await fetched.read_all()
    async with consumer.fetch_arrow(3, columns=["data"], decode=TEXT) as fetched:
        assert (await fetched.read_all()).to_pydict() == {"line": ["one", None, "two"]}
        assert (fetched.received, fetched.bad_records) == (3, 1)
        await fetched.ack()
    assert (await consumer.info()).ack_floor.stream_sequence == 3


@pytest.mark.blocking
async def test_the_values_of_a_bucket_are_typed_columns(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=3)
    await bucket.put_many({"a": b"1", "b": b"\xff", "c": b"3"})
    await bucket.delete("a")
    columns = ["value", "key"]
    entries = await bucket.to_arrow(columns=columns, include_deletes=True, decode=TEXT)
    assert entries.table.to_pydict() == {"line": [None, "3", None], "key": ["b", "c", "a"]}
    assert entries.bad_records == 1
    for history, found in ((True, ["1", "3", None]), (False, ["3"])):
        async with bucket.scan(
            columns=columns, history=history, decode=DecodeOptions(TEXT, "DROPMALFORMED", "_")
        ) as batches:
            assert (await batches.read_all())["line"].to_pylist() == found
            assert batches.report.bad_records == 1
    with pytest.raises(PayloadError, match=f"^bucket '{bucket.bucket}', revision 2, key b: the payload"):
        await bucket.to_arrow(columns=columns, decode=STRICT)
    with pytest.raises(ConfigError, match="decode needs the column value"):
        await bucket.to_arrow(columns=["key"], decode=TEXT)
    with pytest.raises(ArgumentError, match="decode takes a PayloadFormat, a DecodeOptions or None, not str: 'json'"):
        await bucket.to_arrow(decode="json")  # type: ignore[arg-type]
