"""The examples of the page about columns run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest
from jetspark.server import NatsServer

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("number", "shown"), [(0, "orders.us"), (1, "3"), (2, "5 orders")])
def test_an_example_runs(number: int, shown: str) -> None:
    with NatsServer() as server, bulk.connect(server.url) as connection:
        connection.request(StreamCreateRequest(StreamConfig(name="ORDERS", subjects=["orders.*"])))
        subjects = [f"orders.{place}" for place in ("eu", "us", "eu", "us", "eu")]
        bulk.publish(connection, pa.record_batch({"subject": subjects, "data": [b"{}"] * 5}))
        script = EXAMPLES[number].replace("nats://localhost:4222", server.url)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
