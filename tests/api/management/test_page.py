"""The examples of docs/jetstream.md run unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pages import examples, run, run_at

from jetspark.server import NatsServer

EXAMPLES = examples("jetstream.md")


@pytest.fixture
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_complete_example_runs(url: str, number: int) -> None:
    printed = run_at(url, EXAMPLES[number])
    assert printed == "1\nb'12 chairs'\nORDERS\n"


def test_the_fragments_run_in_order_inside_a_program(url: str) -> None:
    body = "\n".join(
        f"        {line}" + ("\n        await fill()" if line.startswith("stream = await js.create_or") else "")
        for example in EXAMPLES[2:]
        for line in example.splitlines()
    )
    printed = run(f"""
import asyncio, jetspark
async def main(url):
    async with await jetspark.connect(url) as connection:
        js = connection.jetstream()
        async def fill():
            await stream.update(allow_direct=True)
            for number in range(20):
                for place in ("eu", "us"):
                    await connection.request(f"orders.{{place}}.{{number % 3}}", b"%d" % number)
{body}
        print([message.sequence for message in latest])
asyncio.run(main({url!r}))
""")
    assert printed.splitlines()[-1] == "[35, 36, 37, 38, 39, 40]"
