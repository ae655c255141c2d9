"""The examples of the page about the connection run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "connection.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_a_whole_example_runs(url: str, number: int) -> None:
    script = EXAMPLES[number].replace("nats://localhost:4222", url)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES[2:], ids=lambda example: example.strip().splitlines()[0][:30])
def test_a_fragment_runs_inside_a_program(url: str, example: str) -> None:
    body = example.replace("    ...\n", "    break\n")
    lines = "\n".join("    " + line for line in body.splitlines())
    script = f"""
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
{lines}
    feeding.cancel()
    if connection is not first:
        await first.close()
    await connection.close()
asyncio.run(main({url!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
