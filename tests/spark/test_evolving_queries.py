"""One query, several runs with one checkpoint: its streams, its list of streams and its sources change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.bulk.streams import until
from tests.pages import examples
from tests.spark.changing_streams import Row, fill, numbered
from tests.spark.support import Nats


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
def test_each_message_comes_once_while_the_streams_of_a_query_change(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    prefix = f"{nats.stream()}_"
    a = fill(nats, f"{prefix}A", 3)

    def query(**options: str) -> DataStreamWriter:
        given = {"servers": nats.url, "startingOffsets": "earliest", **options}
        frame = spark.readStream.format("jetstream").options(**given).load().select("stream", "sequence")
        target = frame.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        return target.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run(**options: str) -> list[Row]:
        query(**options).trigger(availableNow=True).start().awaitTermination()
        return rows()

    def rows() -> list[Row]:
        return sorted((row.stream, row.sequence) for row in spark.read.parquet(str(tmp_path / "rows")).collect())

    def come(wanted: list[Row]) -> Callable[[], bool]:
        return lambda: not running.isActive or rows() == wanted

    running = query(streamPattern=f"{prefix}*").start()
    try:
        running.processAllAvailable()
        b = fill(nats, f"{prefix}B", 2)  # while the query runs
        expected = [*numbered(a, 1, 2, 3), *numbered(b, 1, 2)]
        until(come(expected), 60)
    finally:
        running.stop()
    assert rows() == expected
    c = fill(nats, f"{prefix}C", 2)
    fill(nats, b, 1)
    expected = sorted([*expected, *numbered(b, 3), *numbered(c, 1, 2)])
    assert run(stream=f"{a},{b},{c}") == expected
    for stream in (a, b):
        fill(nats, stream, 1)
    with pytest.raises(StreamingQueryException, match=rf"{b}, {c}.*allowRemovedStreams = true"):
        run(stream=a)
    expected = sorted([*expected, *numbered(a, 4)])
    assert run(stream=a, allowRemovedStreams="true") == expected
    assert run(stream=a) == expected


@pytest.mark.spark
@pytest.mark.matrix
def test_named_sources_are_moved_added_and_removed(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    orders, returns, gifts = (fill(nats, f"{nats.stream()}_{name}", 2) for name in ("ORDERS", "RETURNS", "GIFTS"))
    (example,) = examples("changing-queries.md")
    example = example.replace("nats://localhost:4222", nats.url).replace("/tmp/", f"{tmp_path}/")
    union = 'source("ORDERS").union(source("RETURNS"))'
    assert union in example

    def run(*streams: str) -> list[Row]:
        sources = [f'source("{each}")' for each in streams]
        changed = ".union(".join(sources) + ")" * (len(sources) - 1)
        exec(example.replace(union, changed), {"spark": spark})
        return sorted((row.stream, row.sequence) for row in spark.read.parquet(str(tmp_path / "named")).collect())

    try:
        expected = [*numbered(orders, 1, 2), *numbered(returns, 1, 2)]
        assert run(orders, returns) == sorted(expected)
        fill(nats, orders, 1)
        fill(nats, returns, 1)
        expected += [*numbered(orders, 3), *numbered(returns, 3), *numbered(gifts, 1, 2)]
        assert run(gifts, returns, orders) == sorted(expected)
        fill(nats, returns, 1)
        fill(nats, gifts, 1)
        expected += numbered(gifts, 3)
        assert run(gifts, orders) == sorted(expected)
    finally:
        spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
