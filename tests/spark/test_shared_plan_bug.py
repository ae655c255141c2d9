"""Filters: the rows are the same with Spark's setting on and off. With it on, the server sends less.

Each query loads its own DataFrame and reads it once, because `pushDownPredicate` requires that in this Spark version.
`test_shared_frames` covers DataFrames that are used more than once.
"""

from __future__ import annotations

import contextlib
import io
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import PUSH_DOWN
from tests.spark.support import Nats, running

from jetspark.spark.read.batch_reader import FilteringReader, JetStreamReader
from jetspark.spark.shared_plan_bug import HAS_SHARED_PLAN_BUG, accepts_filters
from jetspark.spark.source import JetStreamDataSource

pytestmark = pytest.mark.spark

TOKENS = ("a.x", "a.y", "b.x", "b.y.z")
COUNT = 400


@pytest.fixture(scope="module")
def stream(nats: Nats) -> str:
    return nats.filled(COUNT, TOKENS)


def load(spark: SparkSession, nats: Nats, stream: str, **options: str) -> DataFrame:
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream, pushDownPredicate="true")
    return reader.options(**options).load()


def found(frame: DataFrame) -> list[int]:
    return sorted(row.sequence for row in frame.collect())


def delivered(nats: Nats, frame: DataFrame) -> tuple[list[int], int]:
    """Return the sequences of a frame, and how many messages the server sent for it."""
    before = nats.sent()
    sequences = found(frame)
    return sequences, nats.sent() - before


CONDITIONS = [
    ("subject = '{s}.a.x'", 100),
    ("subject IN ('{s}.a.x', '{s}.b.x')", 200),
    ("subject LIKE '{s}.a.%'", 200),
    ("subject LIKE '{s}.b.y.%'", 100),
    ("subject LIKE '{s}.a.x%'", 200),
    ("sequence > 380", 20),
    ("sequence >= 10 AND sequence <= 19", 10),
    ("sequence BETWEEN 10 AND 19 AND subject = '{s}.a.y'", 3),
    ("sequence = 17", 1),
    ("sequence IN (17, 19)", 3),
    ("stream = '{s}' AND sequence < 6", 5),
]


@pytest.mark.parametrize(("condition", "most"), CONDITIONS)
def test_the_server_filters_if_the_option_is_on(
    spark: SparkSession, nats: Nats, stream: str, condition: str, most: int
) -> None:
    frame = load(spark, nats, stream).where(condition.format(s=stream))
    spark.conf.set(PUSH_DOWN, "false")
    plain, sent_plain = delivered(nats, frame)
    spark.conf.set(PUSH_DOWN, "true")
    pushed, sent_pushed = delivered(nats, load(spark, nats, stream).where(condition.format(s=stream)))
    assert pushed == plain != []
    # Besides the messages, the server answers requests for the plan and for tasks, and it sends heartbeats.
    assert sent_plain >= COUNT
    assert most <= sent_pushed < most + 50


def test_consumers_are_created_with_the_filter_and_the_bounds(spark: SparkSession, nats: Nats, stream: str) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    frame = load(spark, nats, stream, subject=f"{stream}.*.x").where(
        f"subject LIKE '{stream}.a.%' AND sequence > 100 AND length(data) > 0"
    )
    with nats.watched() as requests:
        assert found(frame) == list(range(101, COUNT + 1, 4))
        configs = [config for config in requests.configs() if "filter_subject" in config]
    assert configs
    assert {config["filter_subject"] for config in configs} == {f"{stream}.a.x"}
    assert configs[0]["opt_start_seq"] == 101


@pytest.mark.parametrize("switch", ["true", "false"])
def test_times_are_filtered_to_the_microsecond(spark: SparkSession, nats: Nats, stream: str, switch: str) -> None:
    spark.conf.set(PUSH_DOWN, switch)
    messages = nats.rows(stream, "sequence", "timestamp", "timestamp_ns")
    bound = messages[200]["timestamp"]
    assert isinstance(bound, datetime)
    bound = bound.astimezone(UTC)
    for sign, test in (
        (">", bound.__lt__),
        (">=", bound.__le__),
        ("<", bound.__gt__),
        ("<=", bound.__ge__),
        ("=", bound.__eq__),
    ):
        expected = [row["sequence"] for row in messages if test(row["timestamp"])]  # type: ignore[arg-type]  # a column
        text = bound.strftime("%Y-%m-%d %H:%M:%S.%f")
        assert found(load(spark, nats, stream).where(f"timestamp {sign} TIMESTAMP '{text}'")) == expected
    ns = messages[200]["timestamp_ns"]
    assert found(load(spark, nats, stream).where(f"timestamp_ns > {ns}")) == list(range(202, COUNT + 1))
    outside = bound + timedelta(days=365_000)
    assert found(load(spark, nats, stream).where(f"timestamp > TIMESTAMP '{outside:%Y-%m-%d}'")) == []
    assert len(found(load(spark, nats, stream).where("timestamp > TIMESTAMP '1900-01-01'"))) == COUNT


@pytest.mark.parametrize("switch", ["true", "false"])
@pytest.mark.parametrize(
    "condition",
    [
        "subject = '{s}.a.*'",
        "subject = '{s}.>'",
        "subject IN ('{s}.*.x', '>')",
        "subject LIKE '{s}.*.%'",
        "subject = '{s}.a.x' AND subject = '{s}.a.y'",
        "sequence > 10 AND sequence < 5",
        "sequence > 1000000",
        "subject = 'not in the stream'",
        "subject = 'elsewhere'",
        "subject IS NULL",
        "stream = 'ANOTHER'",
        "subject = ''",
    ],
)
def test_impossible_conditions_give_no_rows(
    spark: SparkSession, nats: Nats, stream: str, switch: str, condition: str
) -> None:
    spark.conf.set(PUSH_DOWN, switch)
    assert found(load(spark, nats, stream).where(condition.format(s=stream))) == []


def test_a_contradiction_does_not_contact_the_server(spark: SparkSession) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    with running() as nats:  # no worker sends data of an earlier test to it
        stream = nats.filled(4, TOKENS)
        frame = load(spark, nats, stream, subject=f"{stream}.a.*").where(f"subject = '{stream}.b.x'")
        with nats.watched(">") as requests:
            requests.count()  # those of the observer
            assert found(frame) == []
            assert requests.count() == 0
            assert found(load(spark, nats, stream).where("sequence = 1")) == [1]
            assert requests.count() > 0


@pytest.mark.parametrize("switch", ["true", "false"])
def test_conditions_that_only_spark_can_evaluate_are_evaluated(
    spark: SparkSession, nats: Nats, stream: str, switch: str
) -> None:
    spark.conf.set(PUSH_DOWN, switch)
    frame = load(spark, nats, stream)
    assert len(found(frame.where(f"subject LIKE '%.x' AND subject <> '{stream}.b.x'"))) == 100
    assert found(frame.where("sequence = 5 OR sequence = 7")) == [5, 7]
    assert found(frame.where("CAST(data AS STRING) = '41'")) == [42]
    assert len(found(frame.where(f"NOT subject IN ('{stream}.a.x')"))) == 300


def test_filters_work_with_a_user_schema(spark: SparkSession, nats: Nats, stream: str) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream, pushDownPredicate="true")
    frame = reader.schema("SEQUENCE int, Subject string, timestamp timestamp_ntz").load()
    rows = frame.where(f"sequence < 10 AND subject = '{stream}.a.x' AND timestamp > TIMESTAMP_NTZ '2000-01-01'")
    assert [row.SEQUENCE for row in rows.collect()] == [1, 5, 9]


def test_filters_select_streams(spark: SparkSession, nats: Nats, stream: str) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    other = nats.filled(300)
    frame = load(spark, nats, f"{stream},{other}").where(f"stream = '{other}' AND sequence <= 3")
    sequences, sent = delivered(nats, frame)
    assert sequences == [1, 2, 3]
    assert sent < 20


def test_explain_shows_the_filters_of_the_server(spark: SparkSession, nats: Nats, stream: str) -> None:
    spark.conf.set(PUSH_DOWN, "true")
    text = explained(load(spark, nats, stream).where("sequence > 380 AND length(data) > 1"))
    (pushed,) = [line for line in text.splitlines() if line.startswith("PushedFilters: ")]
    assert "GreaterThan(sequence,380)" in pushed
    assert "length" not in pushed
    (kept,) = [line for line in text.splitlines() if line.startswith("Condition : ")]
    assert "length(data" in kept
    assert "380" not in kept
    text = explained(load(spark, nats, stream, pushDownPredicate="false").where("sequence > 380"))
    assert "GreaterThan(sequence,380)" not in text


def explained(frame: DataFrame) -> str:
    """Return the output of `frame.explain("formatted")`."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain("formatted")
    return printed.getvalue()


@pytest.mark.parametrize("option", [None, "false", "true"])
def test_the_reader_accepts_filters_only_if_spark_passes_them_and_the_option_allows_it(
    monkeypatch: pytest.MonkeyPatch, nats: Nats, stream: str, option: str | None
) -> None:
    options = {"servers": nats.url, "stream": stream, **({"pushDownPredicate": option} if option else {})}
    source = JetStreamDataSource(options)
    assert type(source.reader(source.schema())) is JetStreamReader
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    wanted = not HAS_SHARED_PLAN_BUG if option is None else option == "true"
    assert type(source.reader(source.schema())) is (FilteringReader if wanted else JetStreamReader)


@pytest.mark.parametrize(("wanted", "shared", "taken"), [(None, True, False), (None, False, True), (True, True, True)])
def test_filters_are_accepted_by_default_if_scans_have_their_own_plans(
    monkeypatch: pytest.MonkeyPatch, wanted: bool | None, shared: bool, taken: bool
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    assert accepts_filters(wanted, shared) is taken


def test_a_useless_setting_is_reported_once_for_each_application(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    assert not accepts_filters(None, True)
    assert not caplog.messages  # Spark passes no filters
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    for _ in range(3):
        assert not accepts_filters(None, True)
    (warning,) = caplog.messages
    assert warning.startswith(f"{PUSH_DOWN} is on, but the source leaves all filters to Spark: Spark 4.")
    assert warning.endswith("set the options subject, startingOffsets, startingTimestamp and their ends")


def test_the_option_is_reported_if_the_rows_depend_on_the_query(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    for _ in range(3):
        assert accepts_filters(True, True)
    (warning,) = caplog.messages
    assert "option pushDownPredicate" in warning
    assert "only if each query loads a DataFrame of its own and reads it once" in warning
    caplog.clear()
    assert accepts_filters(True, False)
    assert not caplog.messages


def test_an_earlier_harmless_warning_does_not_hide_the_warning_about_the_option(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    for wanted in (None, True, False, True):
        accepts_filters(wanted, True)
    left, taken = caplog.messages
    assert "leaves all filters to Spark" in left
    assert "option pushDownPredicate" in taken


def test_a_warning_is_shown_even_if_it_cannot_be_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "gone"))
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    assert not accepts_filters(None, True)
    assert len(caplog.messages) == 1
