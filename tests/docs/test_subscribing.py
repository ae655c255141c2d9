"""The examples of the page about subscribing run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.server import NatsServer

PAGE = Path(__file__).parents[2] / "docs" / "subscribing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

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


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_whole_example_runs(url: str, number: int) -> None:
    assert "order" in run(EXAMPLES[number].replace("nats://localhost:4222", url))


@pytest.mark.parametrize("example", EXAMPLES[2:], ids=lambda example: example.strip().splitlines()[0][:40])
def test_a_fragment_runs_inside_a_program(url: str, example: str) -> None:
    lines = "\n".join("    " + line for line in example.splitlines())
    run(FRAME.format(lines=lines, url=url))


def test_there_are_fragments() -> None:
    assert len(EXAMPLES) > 5
