"""A DataFrame that is used more than once: each query has its own conditions and no others.

Spark 4.1 to 4.3 leaves conditions that it has passed to a Python source in every other scan of the DataFrame. So every
case here runs with Spark's setting for them on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.functions import expr
from tests.spark.conftest import PUSH_DOWN
from tests.spark.support import Nats

from jetspark.spark import recommended_conf
from jetspark.spark.shared_plan_bug import HAS_SHARED_PLAN_BUG

pytestmark = pytest.mark.spark

TOKENS = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def stream(nats: Nats) -> str:
    """Twenty messages, five of each subject."""
    return nats.filled(20, TOKENS)


@pytest.fixture
def frame(spark: SparkSession, nats: Nats, stream: str) -> Iterator[DataFrame]:
    """A DataFrame of the stream, which is also the view `shared`. Spark's setting is on."""
    spark.conf.set(PUSH_DOWN, "true")
    frame = load(spark, nats, stream)
    frame.createOrReplaceTempView("shared")
    yield frame
    spark.catalog.dropTempView("shared")


def load(spark: SparkSession, nats: Nats, stream: str) -> DataFrame:
    return spark.read.format("jetstream").options(servers=nats.url, stream=stream).load()


def subjects(frame: DataFrame) -> list[str]:
    """The last tokens of the subjects of all rows, in alphabetical order."""
    return sorted(row.subject.rpartition(".")[2] for row in frame.select("subject").collect())


def test_a_count_after_a_filtered_count_counts_all(frame: DataFrame, stream: str) -> None:
    assert frame.where(f"subject = '{stream}.b'").count() == 5
    assert frame.count() == 20
    assert frame.where("sequence > 18").count() == 2
    assert frame.count() == 20


def test_a_union_has_the_rows_of_both_conditions(frame: DataFrame, stream: str) -> None:
    one, other = frame.where(f"subject = '{stream}.a'"), frame.where(f"subject = '{stream}.b'")
    assert subjects(one.union(other)) == ["a"] * 5 + ["b"] * 5
    assert subjects(one.union(frame)) == ["a"] * 10 + ["b"] * 5 + ["c"] * 5 + ["d"] * 5


def test_each_side_of_a_join_has_its_own_conditions(frame: DataFrame, stream: str) -> None:
    left = frame.where(f"subject = '{stream}.a'").select(expr("sequence + 1 AS next"))
    right = frame.where(f"subject = '{stream}.b'").select("sequence")
    assert left.join(right, left.next == right.sequence).count() == 5
    assert left.join(frame.select("sequence"), expr("next = sequence")).count() == 5


def test_a_subtraction_removes_the_rows_of_its_condition(frame: DataFrame, stream: str) -> None:
    assert subjects(frame.exceptAll(frame.where(f"subject = '{stream}.a'"))) == ["b"] * 5 + ["c"] * 5 + ["d"] * 5
    assert subjects(frame.intersect(frame.where(f"subject = '{stream}.d'"))) == ["d"] * 5


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT count(*) FROM shared WHERE sequence IN (SELECT sequence FROM shared WHERE subject = '{s}.c')", [5]),
        ("SELECT (SELECT count(*) FROM shared WHERE subject = '{s}.a'), count(*) FROM shared", [5, 20]),
        ("SELECT max(sequence), count(*), count_if(subject = '{s}.a') FROM shared", [20, 20, 5]),
        ("WITH a AS (SELECT * FROM shared WHERE sequence < 3) SELECT count(*) FROM a, shared", [40]),
        ("SELECT count(*) FROM (SELECT * FROM shared WHERE sequence = 1 UNION ALL SELECT * FROM shared)", [21]),
        ("SELECT count(*) FROM (SELECT * FROM shared MINUS SELECT * FROM shared WHERE sequence > 12)", [12]),
    ],
)
def test_each_part_of_a_sql_statement_has_its_own_conditions(
    spark: SparkSession, frame: DataFrame, stream: str, query: str, rows: list[int]
) -> None:
    del frame  # its view is read
    (row,) = spark.sql(query.format(s=stream)).collect()
    assert list(row) == rows


def test_consecutive_statements_have_their_own_conditions(spark: SparkSession, frame: DataFrame, stream: str) -> None:
    del frame
    for condition, count in (("sequence < 3", 2), ("true", 20), (f"subject LIKE '{stream}.a%'", 5), ("true", 20)):
        (row,) = spark.sql(f"SELECT count(*) FROM shared WHERE {condition}").collect()
        assert row[0] == count


def test_a_write_after_a_filtered_count_stores_every_row(
    spark: SparkSession, nats: Nats, frame: DataFrame, stream: str
) -> None:
    target = nats.stream()
    assert frame.where(f"subject = '{stream}.b'").count() == 5
    rows = frame.selectExpr(f"concat('{target}.', sequence) AS subject", "data")
    rows.write.format("jetstream").option("servers", nats.url).mode("append").save()
    assert nats.info(target).state.messages == 20


@pytest.mark.slow
def test_queries_that_share_a_static_frame_do_not_share_its_conditions(
    spark: SparkSession, nats: Nats, frame: DataFrame, stream: str, tmp_path: Path
) -> None:
    keys = frame.selectExpr("sequence AS key", "subject AS found")
    for name, condition in (("some", f"found = '{stream}.a'"), ("all", "true")):
        orders = spark.readStream.format("jetstream").options(servers=nats.url, stream=stream)
        rows = orders.option("startingOffsets", "earliest").load().join(keys.where(condition), expr("sequence = key"))
        path = str(tmp_path / name)
        writer = rows.select("key").writeStream.format("parquet").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{path}-checkpoint").start(path).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "some")).count() == 5
    assert spark.read.parquet(str(tmp_path / "all")).count() == 20


class ToySource(DataSource):
    """A source that accepts any condition `number = ...`."""

    @classmethod
    def name(cls) -> str:
        return "toy_numbers"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: object) -> DataSourceReader:
        del schema
        return ToyReader()


class ToyReader(DataSourceReader):
    def __init__(self) -> None:
        self.numbers = list(range(10))

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            if isinstance(each, EqualTo):
                self.numbers = [number for number in self.numbers if number == each.value]
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        del partition
        for number in self.numbers:
            yield (number,)


def test_this_spark_version_shares_a_plan_between_scans_as_expected(spark: SparkSession) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    session = spark.newSession()
    session.conf.set(PUSH_DOWN, "true")
    session.dataSource.register(ToySource)
    frame = session.read.format("toy_numbers").load()
    assert frame.where("number = 3").count() == 1
    assert (frame.count() != 10) is HAS_SHARED_PLAN_BUG


def test_the_recommended_settings_leave_the_option_off() -> None:
    assert PUSH_DOWN not in recommended_conf()
