"""Reading a whole stream: the ceiling that server and machine set, and `jetspark.bulk.scan` against it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.rawstream import Drain
from bench.registry import figure
from jetspark import bulk

if TYPE_CHECKING:
    from bench.run import Run

MESSAGES = 1_000_000
"""Messages of the stream that all of them read."""

PEERS = (
    "nats_py_fetch",
    "nats_jetstream_fetch",
    "nats_jetstream_consume",
    "natsio_fetch",
    "natsio_consume",
    "natsrpy_fetch",
    "natsrpy_consume",
)
"""The functions of the peers for this figure."""


@figure("raw_drain", group="raw")
def raw_drain(run: Run) -> float:
    """Every message of the stream through a blocking socket, counted as bytes."""
    count = run.count(MESSAGES)
    expected = run.remember(delivered_bytes, count)
    return count / Drain(run.url, run.stream(count), count).seconds(expected)


def delivered_bytes(run: Run, count: int) -> int:
    """The bytes that a drain of the stream with `count` messages receives."""
    return Drain(run.url, run.stream(count), count).delivered_bytes()


@figure("scan", group="bulk", reference="raw_drain", against=PEERS)
def scan(run: Run) -> float:
    """The whole stream as Arrow record batches, every column decoded."""
    count = run.count(MESSAGES)
    stream = run.stream(count)
    with bulk.connect(run.url) as connection:
        begin = time.perf_counter()
        with bulk.scan(connection, stream) as batches:
            rows = sum(batch.num_rows for batch in batches)
        seconds = time.perf_counter() - begin
    if rows != count:
        raise RuntimeError(f"scan gave {rows} rows of {count}")
    return count / seconds
