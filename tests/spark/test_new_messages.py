"""How a DataFrame and a view show messages that arrive after their first query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.support import Nats

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(nats: Nats) -> str:
    return nats.filled(2)


def load(spark: SparkSession, nats: Nats, stream: str) -> DataFrame:
    return spark.read.format("jetstream").options(servers=nats.url, stream=stream).load()


def counted(spark: SparkSession, name: str) -> int:
    (row,) = spark.sql(f"SELECT count(*) FROM {name}").collect()
    return int(row[0])


@pytest.fixture
def view(spark: SparkSession, nats: Nats, stream: str) -> Iterator[str]:
    """A view in SQL over a table of the catalog that has only the columns."""
    spark.sql("CREATE TABLE columns (subject STRING, sequence BIGINT) USING jetstream")
    try:
        options = f"servers = '{nats.url}', stream = '{stream}'"
        spark.sql(f"CREATE TEMPORARY VIEW fresh AS SELECT * FROM columns WITH ({options})")
        yield "fresh"
    finally:
        spark.sql("DROP VIEW IF EXISTS fresh")
        spark.sql("DROP TABLE IF EXISTS columns")


def test_a_view_over_a_table_of_the_catalog_sees_new_messages(
    spark: SparkSession, nats: Nats, stream: str, view: str
) -> None:
    assert counted(spark, view) == 2
    nats.publish([f"{stream}.a"] * 3)
    assert counted(spark, view) == 5
    assert spark.table(view).count() == 5
    nats.purge(stream)
    nats.publish([f"{stream}.a"])
    assert counted(spark, view) == 1


def test_a_frame_that_is_loaded_again_sees_new_messages_and_so_does_its_view(
    spark: SparkSession, nats: Nats, stream: str
) -> None:
    first = load(spark, nats, stream)
    first.createOrReplaceTempView("loaded")
    try:
        assert counted(spark, "loaded") == 2
        nats.publish([f"{stream}.a"] * 3)
        assert first.count() == counted(spark, "loaded") == 2  # as the page says: Spark plans a frame once
        load(spark, nats, stream).createOrReplaceTempView("loaded")
        assert counted(spark, "loaded") == 5
    finally:
        spark.catalog.dropTempView("loaded")
