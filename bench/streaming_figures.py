"""Structured Streaming: catching up against the batch read of the same data, and what a micro-batch costs.

A query with `availableNow` writes to the no-op sink. The figure is the time of its micro-batches by Spark's progress:
planning, reading and the checkpoint's files. Starting a query (its processes, its checkpoint) takes
seconds and happens once, so it is left out, as the start of the session is with a batch read. Both read the same stream
in as many partitions.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from bench.reading import MESSAGES
from bench.registry import figure
from bench.spark_figures import BACKLOG, session
from bench.trivial_stream import TrivialDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import InputPartition

    from bench.run import Run
    from jetspark.spark.read.stream_reader import JetStreamStreamReader

LARGE_BATCH = 1_000_000
"""Sequences of a large micro-batch."""
COPIED_BATCH = 500_000
"""Sequences of one that is published again."""
SMALL_BATCH = 10
"""Rows of a small one."""
SMALL_BATCHES = 60
"""How many small ones."""
SCHEMA = "sequence bigint"

_numbers = itertools.count(1)


def batches(frame: DataFrame, size: int, sink: str = "noop", **options: str) -> list[tuple[int, float]]:
    """Run a query up to what is available; rows and milliseconds of the micro-batches that read as much as they may."""
    folder = tempfile.mkdtemp(prefix="jetspark-bench-")
    try:
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", folder)
        query = writer.queryName(f"bench{next(_numbers)}").trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [(each.numInputRows, float(each.durationMs["triggerExecution"])) for each in query.recentProgress]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [each for each in progress if each[0] >= size]


def rate(found: list[tuple[int, float]]) -> float:
    """Rows a second."""
    return sum(rows for rows, _ in found) / sum(took for _, took in found) * 1000


def by_batches(run: Run, count: int, size: int) -> DataFrame:
    """A stream of so many messages, by micro-batches of that size."""
    reader = run.shared(session).readStream.format("jetstream").option("servers", run.url)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(size))
    return reader.option("stream", run.stream(count)).load()


@figure("stream_catch_up", group="streaming", reference="spark_read")
def stream_catch_up(run: Run) -> float:
    """The whole stream of `spark_read` by micro-batches of 1,000,000 sequences."""
    return rate(batches(by_batches(run, BACKLOG, LARGE_BATCH), LARGE_BATCH))


@figure("stream_write", group="streaming", reference="spark_write_dedup", against=["stream_catch_up"])
def stream_write(run: Run) -> float:
    """A stream, published again with message ids."""
    return rate_of_copy(run)


@figure("stream_write_recorded", group="streaming", reference="stream_write")
def stream_write_recorded(run: Run) -> float:
    """The same with a record of each task, so that a late repetition is stored once as well."""
    return rate_of_copy(run, ledgerStream="BENCH_PROGRESS")


def rate_of_copy(run: Run, **options: str) -> float:
    """Rows a second from a stream into another one, by micro-batches of 500,000 sequences."""
    count = run.count(MESSAGES)
    size = min(COPIED_BATCH, count // 2)
    with run.target(count) as (_, subject):
        given = {"servers": run.url, "subject": subject, "maxReplayDelay": "2m", **options}
        return rate(batches(by_batches(run, count, size), size, "jetstream", **given))


def milliseconds(frame: DataFrame) -> float:
    """The median of the small micro-batches of a query, but for its first ones."""
    found = batches(frame, SMALL_BATCH)
    return statistics.median(took for _, took in found[len(found) // 4 :])


@figure("stream_batch_trivial", group="streaming", unit="ms")
def stream_batch_trivial(run: Run) -> float:
    """A micro-batch of ten rows from a source that asks nobody."""
    spark = run.shared(session)
    spark.dataSource.register(TrivialDataSource)
    count = SMALL_BATCH * SMALL_BATCHES
    return milliseconds(spark.readStream.format("trivial").option("count", str(count)).option("rows", "10").load())


@figure("stream_batch", group="streaming", unit="ms", reference="stream_batch_trivial")
def stream_batch(run: Run) -> float:
    """A micro-batch of ten rows from the product's source."""
    reader = run.shared(session).readStream.format("jetstream").schema(SCHEMA).option("servers", run.url)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(SMALL_BATCH))
    return milliseconds(reader.option("stream", run.stream(max(SMALL_BATCH * SMALL_BATCHES, 1_000))).load())


def first_range(run: Run) -> tuple[JetStreamStreamReader, InputPartition]:
    """A reader of the whole stream, and its first partition."""
    from pyspark.sql.types import LongType, StructType

    from jetspark.spark.options.stream_read import stream_read_options
    from jetspark.spark.read.stream_reader import JetStreamStreamReader

    given = {"servers": run.url, "stream": run.stream(run.count(MESSAGES)), "startingOffsets": "earliest"}
    reader = JetStreamStreamReader(StructType().add("sequence", LongType()), stream_read_options(given))
    start = reader.initialOffset()
    (part, *_) = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    return reader, part


def first_batch(reader: JetStreamStreamReader, part: InputPartition) -> float:
    """Milliseconds from here to the first record batch."""
    begin = time.perf_counter()
    batches = reader.read(part)
    next(batches)
    took = time.perf_counter() - begin
    batches.close()  # type: ignore[attr-defined]  # a generator
    return took * 1000


@figure("stream_first_row", group="streaming", unit="ms")
def stream_first_row(run: Run) -> float:
    """From the start of a read to its first record batch, in this process, over a connection that is there."""
    reader, part = first_range(run)
    first_batch(reader, part)  # now the process has a connection
    return first_batch(reader, part)


@figure("stream_task_first_row", group="streaming", unit="ms")
def stream_task_first_row(run: Run) -> float:
    """The same inside of a task of Spark, in its worker: what imports or connects first does so within the time."""
    reader, part = first_range(run)
    planned = run.shared(session).sparkContext.parallelize([(reader, part)], 1)
    (took,) = planned.map(lambda each: first_batch(*each)).collect()
    return float(took)
