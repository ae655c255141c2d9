"""The examples of the page about JetStream run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.server import NatsServer

PAGE = Path(__file__).parents[3] / "docs" / "jetstream.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_whole_example_runs(url: str, number: int) -> None:
    printed = run(EXAMPLES[number].replace("nats://localhost:4222", url))
    assert printed == "1\nb'12 chairs'\nORDERS\n"


def test_the_fragments_run_one_after_the_other_inside_a_program(url: str) -> None:
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
