"""The examples of docs/connection.md run unchanged."""

from __future__ import annotations

import pytest
from tests.pages import examples, indented, run, run_at, title

EXAMPLES = examples("connection.md")


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_complete_example_runs(url: str, number: int) -> None:
    assert "hello" in run_at(url, EXAMPLES[number])


@pytest.mark.parametrize("example", EXAMPLES[2:], ids=title)
def test_a_fragment_runs_inside_a_program(url: str, example: str) -> None:
    body = example.replace("    ...\n", "    break\n")
    run(f"""
import asyncio, jetspark
async def main(url):
    connection = await jetspark.connect(url)
    async def feed():
        while True:
            await connection.publish("orders.one", b"1")
            await asyncio.sleep(0.05)
    feeding = asyncio.create_task(feed())
    clock = await connection.subscribe("time.now", callback=lambda message: message.respond(b"12"))
    first = connection
{indented(body)}
    feeding.cancel()
    if connection is not first:
        await first.close()
    await connection.close()
asyncio.run(main({url!r}))
""")
