"""Spark: the product's source and sink, and the same job over nats-py with tuples.

One `local[2]` session for the run, with the settings that the README recommends; both formats run under them. Reading
ends in the no-op sink; what is written comes from a range that the JVM makes. A figure is a whole job: planning, tasks
and commit are in the time.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from typing import TYPE_CHECKING

from bench.environments import ROOT, spark_packages
from bench.reading import MESSAGES
from bench.registry import figure
from bench.run import PAYLOAD
from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from bench.run import Run

CORES = 2
BACKLOG = 2_000_000
"""Messages that the product's source reads in a job, also in a quick run and in the warm-up: a figure of fewer would be
one of what a job costs before its first row, and a shorter warm-up leaves the JVM cold."""
NATS_PY_MESSAGES = 200_000
"""Messages of a full run for the format over nats-py, which is the slower one."""

SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.warehouse.dir": str(ROOT / "build" / "spark-warehouse"),
}


@contextlib.contextmanager
def session(run: Run) -> Iterator[SparkSession]:
    """The Spark session; its workers find nats-py where `spark_packages` puts it."""
    from pyspark.sql import SparkSession

    with contextlib.suppress(Unavailable):  # the figures that need it say so themselves
        folders = [str(folder) for folder in run.shared(spark_packages)]
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
        sys.path += folders
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def nats_py_format(run: Run) -> Iterator[str]:
    """The format over nats-py, registered; its name."""
    run.shared(spark_packages)
    spark = run.shared(session)
    source = importlib.import_module("nats_py_source").NatsPyDataSource
    spark.dataSource.register(source)
    yield source.name()


@figure("spark_read_nats_py", group="spark")
def spark_read_nats_py(run: Run) -> float:
    """Tuples over nats-py into the no-op sink."""
    count = run.count(NATS_PY_MESSAGES)
    reader = run.shared(session).read.format(run.shared(nats_py_format))
    options = {"url": run.url, "stream": run.stream(run.count(MESSAGES)), "count": str(count)}
    return count / seconds_to_read(run, reader.options(**options).load(), count)


@figure("spark_read", group="spark", reference="spark_read_nats_py", against=["scan"])
def spark_read(run: Run) -> float:
    """The whole stream into the no-op sink."""
    reader = run.shared(session).read.format("jetstream").option("servers", run.url)
    return BACKLOG / seconds_to_read(run, reader.option("stream", run.stream(BACKLOG)).load(), BACKLOG)


@figure("spark_write_nats_py", group="spark")
def spark_write_nats_py(run: Run) -> float:
    """Rows by publish_async of nats-py."""
    count = run.count(NATS_PY_MESSAGES)
    with run.target(count) as (_, subject):
        writer = rows(run.shared(session), subject, count).write.format(run.shared(nats_py_format))
        begin = time.perf_counter()
        writer.option("url", run.url).mode("append").save()
        return count / (time.perf_counter() - begin)


@figure("spark_write", group="spark", reference="spark_write_nats_py", against=["bulk_publish"])
def spark_write(run: Run) -> float:
    """Rows by the product's sink, without message ids, as the format over nats-py does it."""
    return rows_written(run, dedup="off")


@figure("spark_write_dedup", group="spark", reference="spark_write_nats_py", against=["spark_write"])
def spark_write_dedup(run: Run) -> float:
    """The same with message ids, by which the stream drops what a repeated task had published: the default."""
    return rows_written(run, dedup="auto")


def rows_written(run: Run, dedup: str) -> float:
    """Rows a second that the product's sink publishes."""
    count = run.count(MESSAGES)
    with run.target(count) as (_, subject):
        writer = rows(run.shared(session), subject, count).write.format("jetstream")
        begin = time.perf_counter()
        writer.option("servers", run.url).option("dedup", dedup).mode("append").save()
        return count / (time.perf_counter() - begin)


def seconds_to_read(run: Run, frame: DataFrame, count: int) -> float:
    """The seconds of a job that reads everything and keeps nothing; the warm-up counts the rows besides."""
    if run.warming_up and (found := frame.count()) != count:
        raise RuntimeError(f"Spark read {found} rows of {count}")
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def rows(spark: SparkSession, subject: str, count: int) -> DataFrame:
    """`count` rows of subject and data, made by the JVM."""
    data = f"cast(lpad(cast(id as string), {PAYLOAD}, '0') as binary) as data"
    return spark.range(0, count, 1, CORES).selectExpr(f"'{subject}' as subject", data)
