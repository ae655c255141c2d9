"""An error of planning or of a task is raised, and not logged as well: Spark writes what is raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.pages import DOCS
from tests.spark.micro_batches import reader as stream_reader
from tests.spark.sink import ROWS, batches, task, writer
from tests.spark.support import Nats
from tests.spark.test_data_loss import planned, reader, sequences

from jetspark.errors import DataLossError, Error
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.spark.options.batch import write_options
from jetspark.spark.write.batch_writer import plan_write

PAGE = (DOCS / "spark.md").read_text(encoding="utf-8")
HIDE = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"


def lost_messages(nats: Nats) -> object:
    stream = nats.filled(20)
    made, part = planned(nats, stream)
    nats.connection.request(StreamPurgeRequest(stream, sequence=10))
    return sequences(made, part)


def refused_rows(nats: Nats) -> object:
    stream = nats.stream(max_msg_size=1)
    options = write_options({"servers": nats.url, "retryTimeout": "1"})
    return plan_write(ROWS, options, overwrite=False).write(iter(batches(stream, range(100, 110))))


def refused_rows_of_a_stream(nats: Nats) -> object:
    stream = nats.stream(max_msg_size=1)
    return writer(nats, retryTimeout="1").publish(task(), iter(batches(stream, range(100, 110))))


FAULTS: dict[str, tuple[Callable[[Nats], object], type[Exception]]] = {
    "a batch of a missing stream": (lambda nats: reader(nats, "NOPE").partitions(), Error),
    "a query on a missing stream": (lambda nats: stream_reader(nats, "NOPE").initialOffset(), Error),
    "a task that finds messages missing": (lost_messages, DataLossError),
    "a task whose rows are refused": (refused_rows, Error),
    "a task of a query whose rows are refused": (refused_rows_of_a_stream, Error),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_is_raised_and_not_logged(nats: Nats, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    caplog.set_level("DEBUG", "jetspark")
    fail, kind = FAULTS[fault]
    with pytest.raises(kind) as caught:
        fail(nats)
    sentence = str(caught.value)
    assert [text for text in caplog.messages if sentence[:60] in text or text[:60] in sentence] == []
    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


@pytest.mark.spark
@pytest.mark.parametrize("hidden", ["true", "false"])
def test_the_page_shows_how_to_find_the_sentence_of_an_error(
    spark: SparkSession, nats: Nats, capsys: pytest.CaptureFixture[str], hidden: str
) -> None:
    (example,) = re.findall(r"```\n(import re\n.*?)```", PAGE, re.DOTALL)
    spark.conf.set(HIDE, hidden)
    try:
        exec(example, {"spark": spark, "options": {"servers": nats.url, "stream": "NOPE"}})
    finally:
        spark.conf.unset(HIDE)
    (sentence,) = ast.literal_eval(capsys.readouterr().out)
    assert sentence.startswith("jetspark.jetstream.errors.api.StreamNotFoundError: STREAM.INFO.NOPE: stream not found")


@pytest.mark.spark
@pytest.mark.parametrize(("hidden", "lines"), [("true", 2), ("false", 40)])
def test_the_text_of_an_error_is_as_long_as_the_page_says(
    spark: SparkSession, nats: Nats, hidden: str, lines: int
) -> None:
    spark.conf.set(HIDE, hidden)
    try:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("jetstream").options(servers=nats.url, stream="NOPE").load().count()
    finally:
        spark.conf.unset(HIDE)
    assert len(str(caught.value).splitlines()) == pytest.approx(lines, abs=lines // 4)
