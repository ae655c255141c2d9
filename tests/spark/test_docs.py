"""The page on Spark: its table of options is the one that the code reads from, and its examples run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.support import running

from jetspark.spark.option_table import OPTIONS, markdown_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
UPDATE = "JETSPARK_UPDATE_DOCS"
MARKS = re.compile(r"(?<=<!-- options -->\n).*(?=<!-- /options -->)", re.DOTALL)


def test_the_table_of_options_is_not_stale() -> None:
    page = PAGE.read_text()
    if os.environ.get(UPDATE):
        PAGE.write_text(MARKS.sub(lambda _: markdown_table(), page))
        page = PAGE.read_text()
    found = MARKS.search(page)
    assert found is not None
    assert found[0] == markdown_table(), f"run this test with {UPDATE}=1"


def test_options_that_the_page_speaks_of_exist() -> None:
    text = MARKS.sub("", PAGE.read_text())
    given = re.findall(r'\.option\(\s*"(\w+)"', text)
    assert given
    assert set(given) <= {option.name for option in OPTIONS}


@pytest.mark.spark
def test_the_examples_run(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    first, read, write = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "recommended_conf" in first  # the session of the tests is made like that
    with running() as nats:
        orders = nats.stream("ORDERS", subjects=["orders.>"])
        delays = nats.stream("DELAYS", subjects=["delays.>"])
        nats.publish(["orders.eu.de.1", "orders.eu.fr.2", "orders.us.3"], [b'{"n": 1}'] * 3)
        frame = spark.sql("SELECT 'UA' AS carrier, 3.5 AS delay")
        names: dict[str, object] = {"spark": spark, "delays": frame}
        exec(read.replace("nats://localhost:4222", nats.url).replace("2026-03-01", "2020-03-01"), names)
        exec(write.replace("nats://localhost:4222", nats.url), names)
        assert nats.info(orders).state.messages == 3
        (row,) = nats.rows(delays, "subject", "data")
        assert row == {"subject": "delays.UA", "data": b'{"carrier":"UA","delay":3.5}'}
    assert '{"n": 1}' in capsys.readouterr().out
