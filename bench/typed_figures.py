"""JSON as typed rows in Spark: decoded by the product's source, against `from_json` over the bytes of the same source.

The messages have five fields in about 120 bytes. Batches and streams end in the no-op sink. CPU is that of all
processes: nats-server, the JVM, Spark's Python workers and this one. It is a figure of its own for the same job: a
round takes both numbers from one run of the job.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.cpu import cpu_seconds
from bench.registry import figure
from bench.spark_figures import seconds_to_read, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from bench.run import Run

MESSAGES: Final = 2_000_000
"""Messages of a job, also in a quick run and in the warm-up, as in `spark_read`."""
BATCH: Final = 500_000
"""Sequences of a micro-batch."""
BLOCK: Final = 50_000
"""Messages that are published at once."""
POLL: Final = 0.1
"""Seconds between two looks at the progress of a query."""
FIELDS: Final = "id BIGINT, customer STRING, amount DOUBLE, paid BOOLEAN, at TIMESTAMP"

_numbers = itertools.count(1)


@contextlib.contextmanager
def orders(run: Run) -> Iterator[str]:
    """A stream of JSON; its name."""
    import pyarrow as pa

    from bench.rawsocket import connected
    from bench.rawstream import create_stream
    from jetspark import bulk

    with connected(run.url) as raw:
        create_stream(raw, "TYPED", "typed.>")
    with bulk.connect(run.url) as connection:
        for first in range(0, MESSAGES, BLOCK):
            data = [payload(number) for number in range(first, first + BLOCK)]
            bulk.publish(connection, pa.record_batch({"subject": ["typed.order"] * BLOCK, "data": data}))
    yield "TYPED"


def payload(number: int) -> bytes:
    """An order: five fields."""
    second, paid = divmod(number, 2)
    return (
        f'{{"id":{number},"customer":"customer-{number * 7919 % 100_000_007:09d}","amount":{number % 10_000 / 100},'
        f'"paid":{"true" if paid else "false"},"at":"2026-03-{second // 86_400 % 28 + 1:02d}T'
        f'{second // 3_600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{number % 1_000:03d}Z"}}'
    ).encode()


def typed(run: Run, *, stream: bool = False) -> DataFrame:
    """The fields, decoded by the source."""
    return read(run, FIELDS, stream=stream, payloadFormat="json")


def decoded_by_spark(run: Run, *, stream: bool = False) -> DataFrame:
    """The fields, decoded by `from_json`."""
    from pyspark.sql.functions import col, from_json

    data = read(run, "data STRING", stream=stream)
    return data.select(from_json(col("data"), FIELDS).alias("fields")).select("fields.*")


def read(run: Run, schema: str, *, stream: bool, **options: str) -> DataFrame:
    """The stream of JSON with a schema."""
    spark = run.shared(session)
    reader = (spark.readStream if stream else spark.read).format("jetstream").schema(schema).options(**options)
    if stream:
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(BATCH))
    return reader.option("servers", run.url).option("stream", run.shared(orders)).load()


class Cost(NamedTuple):
    """The cost of a job."""

    rate: float
    """Rows a second."""
    cpu: float
    """Microseconds of CPU for each row."""


def of_batch(run: Run, frame: Callable[..., DataFrame]) -> Cost:
    """The cost of a batch, with its planning."""
    read = frame(run)
    before = cpu_seconds()
    seconds = seconds_to_read(run, read, MESSAGES)
    return Cost(MESSAGES / seconds, (cpu_seconds() - before) / MESSAGES * 1e6)


def of_stream(run: Run, frame: Callable[..., DataFrame]) -> Cost:
    """The cost of the micro-batches of a query after the first one: a query starts once."""
    with tempfile.TemporaryDirectory(prefix="jetspark-bench-") as folder:
        writer = frame(run, stream=True).writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.queryName(f"typed{next(_numbers)}").trigger(availableNow=True).start()
        used: dict[int, float] = {}  # CPU at the end of each micro-batch
        while query.isActive:
            used.setdefault(len(query.recentProgress), cpu_seconds())
            time.sleep(POLL)
        query.awaitTermination()
        used.setdefault(len(query.recentProgress), cpu_seconds())
        rest = query.recentProgress[1:]
    used.pop(0, None)
    first, last = min(used), max(used)
    seconds = sum(float(each.durationMs["triggerExecution"]) for each in rest) / 1000
    return Cost(
        sum(each.numInputRows for each in rest) / seconds, (used[last] - used[first]) / (last - first) / BATCH * 1e6
    )


@dataclass(frozen=True)
class Job:
    """A job whose rate and CPU are figures."""

    name: str
    cost: Callable[[Run, Callable[..., DataFrame]], Cost]
    """Runs it."""
    frame: Callable[..., DataFrame]
    """Returns the DataFrame to read."""
    reference: str | None = None
    """The job that it is compared with."""


JOBS: Final = (
    Job("from_json", of_batch, decoded_by_spark),
    Job("typed_json", of_batch, typed, "from_json"),
    Job("stream_from_json", of_stream, decoded_by_spark),
    Job("stream_typed_json", of_stream, typed, "stream_from_json"),
)

_left: Final[dict[str, Cost]] = {}
"""The cost of a job that has just run, until its second figure asks for it."""


def rate_of(job: Job, run: Run) -> float:
    """Rows a second."""
    _left[job.name] = job.cost(run, job.frame)
    return _left[job.name].rate


def cpu_of(job: Job, run: Run) -> float:
    """Microseconds of CPU for each row."""
    if job.name not in _left:
        rate_of(job, run)
    return _left.pop(job.name).cpu


for _job in JOBS:
    figure(_job.name, group="typed", reference=_job.reference)(functools.partial(rate_of, _job))
    figure(f"{_job.name}_cpu", group="typed", unit="us", reference=_job.reference and f"{_job.reference}_cpu")(
        functools.partial(cpu_of, _job)
    )
