"""The examples of docs/publishing.md run unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.pages import DOCS, examples, indented, run, run_at

from jetspark.server import NatsServer

EXAMPLES = examples("publishing.md")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_complete_example_runs(url: str, number: int) -> None:
    assert run_at(url, EXAMPLES[number]).endswith("0000 stored\n")


def test_the_fragments_run_in_order(url: str) -> None:
    output = run(f"""
import asyncio, jetspark
async def main():
    async with await jetspark.connect({url!r}) as connection:
        await connection.jetstream().create_stream(name="ORDERS", subjects=["orders.>"])
{indented("".join(EXAMPLES[2:]), 2)}
asyncio.run(main())
""").splitlines()
    assert re.fullmatch(r"ORDERS \d+ False", output[0])
    assert output[1] == "2 2"


def test_r49_the_page_shows_the_publish_window_first() -> None:
    text = (DOCS / "publishing.md").read_text()
    assert "publish_async" in EXAMPLES[0]
    assert text.index("js.publish_async(") < text.index("js.publish(")
