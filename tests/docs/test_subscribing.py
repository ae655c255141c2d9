"""The examples of docs/subscribing.md run unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pages import examples, indented, run, run_at, title

from jetspark.server import NatsServer

EXAMPLES = examples("subscribing.md")

FRAME = """
import asyncio, jetspark
async def main(url):
    connection = await jetspark.connect(url)
    js = connection.jetstream()
    await js.create_or_update_stream(name="ORDERS", subjects=["orders.>"])
    await js.create_or_update_stream(name="JOBS", subjects=["jobs.>"])
    await js.publish("orders.eu", b"1")
{lines}
    await connection.close()
asyncio.run(main({url!r}))
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_complete_example_runs(url: str, number: int) -> None:
    assert "order" in run_at(url, EXAMPLES[number])


@pytest.mark.parametrize("example", EXAMPLES[2:], ids=title)
def test_a_fragment_runs_inside_a_program(url: str, example: str) -> None:
    run(FRAME.format(lines=indented(example), url=url))


def test_the_page_has_fragments() -> None:
    assert len(EXAMPLES) > 5
