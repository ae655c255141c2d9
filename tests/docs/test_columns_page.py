"""The examples of docs/columns.md run unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.pages import examples, run_at

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest
from jetspark.server import NatsServer

EXAMPLES = examples("columns.md")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "orders.us"),
        (1, "3"),
        (2, "5 orders"),
        (3, "orders.us"),
        (4, "[2.5, 2.5, 2.5, 2.5, 2.5] 0 bad"),
        (5, "2 published"),
    ],
)
def test_an_example_runs(number: int, shown: str) -> None:
    with NatsServer() as server, bulk.connect(server.url) as connection:
        connection.request(StreamCreateRequest(StreamConfig(name="ORDERS", subjects=["orders.*"])))
        subjects = [f"orders.{place}" for place in ("eu", "us", "eu", "us", "eu")]
        bulk.publish(
            connection,
            pa.record_batch({"subject": subjects, "data": [b'{"id": 1, "amount": 2.5}'] * 5}),
        )
        assert shown in run_at(server.url, EXAMPLES[number])
