"""The examples of docs/consuming.md run unchanged, and its table of statuses matches the code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pages import examples, indented, run, run_at, title
from tools.status_table import PAGE, table, written

from jetspark.jetstream.status import STATUS_RULES
from jetspark.server import NatsServer

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples(PAGE.name)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_complete_example_runs(number: int) -> None:
    with NatsServer() as server:
        shown = run_at(server.url, EXAMPLES[number])
    assert "1 order 0" in shown
    assert "100 order 99" in shown


@pytest.mark.parametrize("example", EXAMPLES[2:], ids=title)
def test_a_fragment_runs_inside_a_program(url: str, example: str) -> None:
    run(f"""
import asyncio, jetspark
async def main(url):
    connection = await jetspark.connect(url)
    js = connection.jetstream()
    await js.create_stream(name="ORDERS", subjects=["orders.>"])
    await js.publish("orders.new", b"order")
    worker = await js.create_consumer("ORDERS", durable_name="worker")
{indented(example)}
    await connection.close()
asyncio.run(main({url!r}))
""")


def test_the_table_of_statuses_matches_the_code() -> None:
    assert written(TEXT) == TEXT
    assert TEXT.count(table()) == 1
    assert table().count("\n") == len(STATUS_RULES) + 2
