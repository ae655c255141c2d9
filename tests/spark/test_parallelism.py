"""By default, a read has as many partitions as Spark has cores, as far as the source can know them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.spark.jvm import LIGHT
from tests.spark.micro_batches import latest, reader
from tests.spark.support import Nats

from jetspark.spark import configure, register
from jetspark.spark.parallelism import cores_to_read_with, with_cores_of
from jetspark.spark.read import partitions

LEAVES = "spark.sql.leafNodeDefaultParallelism"
FIXED = {"spark.executor.instances": "8", "spark.executor.cores": "4"}


@pytest.fixture
def before_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which Spark does not run yet."""
    monkeypatch.setenv("JETSPARK_CORES", "")  # so that it is restored
    monkeypatch.setattr(SparkContext, "_jvm", None)


def builder(**settings: str) -> SparkSession.Builder:
    made = SparkSession.Builder()
    made._options = {}
    return made.config(map={**settings})


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,4]"}, 3),
        ({"spark.master": "local[ 3 , 4 ]"}, 3),
        ({"spark.master": "local[*]"}, None),
        ({"spark.master": "local[0]"}, None),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "local-cluster[ 2 , 3 , 1024 ]"}, 6),
        ({"spark.master": "local-cluster[2,0,1024]"}, None),
        ({"spark.master": "spark://127.0.0.1:7077"}, None),
        ({"spark.master": "spark://127.0.0.1:7077", "spark.default.parallelism": "40"}, 40),
        ({"spark.master": "yarn", **FIXED}, 32),
        ({"spark.master": "k8s://https://127.0.0.1:6443", **FIXED}, 32),
        ({"spark.master": "spark://127.0.0.1:7077", **FIXED, "spark.cores.max": "20"}, 20),
        ({"spark.master": "spark://127.0.0.1:7077", "spark.cores.max": "20"}, 20),
        ({"spark.master": "yarn", **FIXED, "spark.cores.max": "20"}, 32),
        ({"spark.master": "yarn", **FIXED, "spark.dynamicAllocation.enabled": "true"}, None),
        ({"spark.master": "yarn", **FIXED, "spark.default.parallelism": "40"}, 40),
        ({"spark.master": "yarn", "spark.executor.cores": "4"}, None),
        ({"spark.master": "yarn", **FIXED, "spark.executor.cores": "many"}, None),
        ({"spark.master": "local[*]", **FIXED}, None),
        ({"spark.master": "local[3]", **FIXED}, 3),
        (FIXED, None),
        ({"spark.master": "local[3]", "spark.default.parallelism": "40"}, 40),
        ({"spark.master": "local[3]", "spark.default.parallelism": "40", LEAVES: "50"}, 50),
        ({"spark.master": "local[3]", "spark.default.parallelism": "many"}, 3),
        ({}, None),
    ],
)
def test_the_source_reads_with_the_cores_of_the_builder(
    before_spark: None, settings: dict[str, str], cores: int | None
) -> None:
    configure(builder(**{"spark.pyspark.python": sys.executable, **settings}))
    assert cores_to_read_with() == (cores or os.cpu_count())


def test_the_cores_of_an_earlier_session_do_not_stay(before_spark: None) -> None:
    configure(builder(**{"spark.master": "local[77]"}))
    assert cores_to_read_with() == 77
    configure(builder(**{"spark.master": "yarn"}))
    assert cores_to_read_with() == os.cpu_count()


@pytest.mark.parametrize(
    ("started", "settings", "leaves", "cores"),
    [
        (2, {"spark.master": "yarn", **FIXED}, None, 32),  # no executor is there yet
        (40, {"spark.master": "yarn", **FIXED}, None, 40),
        (2, {"spark.master": "yarn"}, None, 2),
        (2, {"spark.master": "yarn", **FIXED}, "7", 7),
    ],
)
def test_executors_that_start_later_count_at_a_registration(
    started: int, settings: dict[str, str], leaves: str | None, cores: int
) -> None:
    environment = {"OTHER": "1"}
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    context = SimpleNamespace(environment=environment, defaultParallelism=started, getConf=lambda: conf)
    session: Any = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=lambda *_: leaves))
    with with_cores_of(session):
        assert environment == {"OTHER": "1", "JETSPARK_CORES": str(cores)}
    assert environment == {"OTHER": "1"}


@pytest.mark.parametrize("text", ["", "0", "-3", "many", "1.5", "\u0663", "9" * 30])
def test_a_damaged_number_of_cores_does_not_count(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JETSPARK_CORES", text)
    assert cores_to_read_with() == (os.cpu_count() or 1)


def test_a_repeated_micro_batch_has_the_same_partitions_on_a_larger_machine(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MIN_SEQUENCES_PER_PARTITION", 1)
    monkeypatch.setenv("JETSPARK_CORES", "3")
    stream = nats.filled(12)
    made = reader(nats, stream, maxOffsetsPerTrigger="6")
    start = made.initialOffset()
    end = latest(made, start)
    before = made.partitions(start, end)
    assert len(before) == 3
    monkeypatch.setenv("JETSPARK_CORES", "6")
    restarted = reader(nats, stream, maxOffsetsPerTrigger="6")
    assert restarted.partitions(start, end) == before
    assert len(restarted.partitions(end, latest(restarted, end))) == 6  # the next one uses all cores
    old = {name: each for name, each in end.items() if name != "cores"}
    assert len(reader(nats, stream).partitions(start, old)) == 6


@pytest.mark.parametrize("cores", [None, 0, -1, True, "3", 1.5, [3]])
def test_a_checkpoint_without_a_number_of_cores_is_read(
    nats: Nats, monkeypatch: pytest.MonkeyPatch, cores: object
) -> None:
    monkeypatch.setattr(partitions, "MIN_SEQUENCES_PER_PARTITION", 1)
    monkeypatch.setenv("JETSPARK_CORES", "2")
    made = reader(nats, nats.filled(4))
    start = made.initialOffset()
    assert len(made.partitions(start, {**latest(made, start), "cores": cores})) == 2


@pytest.mark.spark
def test_a_registered_source_reads_with_the_cores_that_spark_uses(spark: SparkSession, nats: Nats) -> None:
    session, stream = spark.newSession(), nats.filled(150_000)  # registrations last as long as a session
    environment = dict(session.sparkContext.environment)

    def partitions_of(**options: str) -> int:
        frame = session.read.format("jetstream").options(servers=nats.url, stream=stream, **options).load()
        return frame.rdd.getNumPartitions()

    session.conf.set(LEAVES, "3")
    register(session)
    assert partitions_of() == 3
    assert partitions_of(minPartitions="5") == 5
    session.conf.unset(LEAVES)
    register(session)
    assert partitions_of() == session.sparkContext.defaultParallelism == 2
    assert session.sparkContext.environment == environment


SCRIPT = """
from pyspark.sql import SparkSession
from jetspark.spark import configure

spark = configure(SparkSession.builder.master("local[3]")).getOrCreate()
frame = spark.read.format("jetstream").option("stream", {stream!r}).load()
print("partitions", frame.rdd.getNumPartitions())
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
def test_a_local_spark_reads_with_its_number_of_cores(nats: Nats, tmp_path: Path, java: None) -> None:
    script = tmp_path / "partitions.py"
    script.write_text(SCRIPT.format(stream=nats.filled(150_000)))
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "NATS_URL": nats.url, "JDK_JAVA_OPTIONS": LIGHT}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "partitions 3\n" in done.stdout, done.stderr[-2000:]
