"""The examples of the page about publishing run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.server import NatsServer

PAGE = Path(__file__).parents[3] / "docs" / "publishing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_whole_example_runs(url: str, number: int) -> None:
    assert _run(EXAMPLES[number].replace("nats://localhost:4222", url)).endswith("0000 stored\n")


def test_the_fragments_run_one_behind_the_other(url: str) -> None:
    body = "".join(EXAMPLES[2:])
    lines = "\n".join("        " + line for line in body.splitlines())
    told = _run(f"""
import asyncio, jetspark
async def main():
    async with await jetspark.connect({url!r}) as connection:
        await connection.jetstream().create_stream(name="ORDERS", subjects=["orders.>"])
{lines}
asyncio.run(main())
""").splitlines()
    assert re.fullmatch(r"ORDERS \d+ False", told[0])
    assert told[1] == "2 2"


def test_r49_the_window_comes_first() -> None:
    text = PAGE.read_text()
    assert "publish_async" in EXAMPLES[0]
    assert text.index("js.publish_async(") < text.index("js.publish(")


def _run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
