"""Publishing with acknowledgements: the ceiling, and `jetspark.bulk.publish` against it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.rawsocket import connected
from bench.rawstream import BLOCK, encoded, payload, publish
from bench.registry import figure
from bench.run import PAYLOAD
from jetspark import bulk

if TYPE_CHECKING:
    from bench.run import Run

MESSAGES = 1_000_000
"""Messages that each of them publishes."""

BATCH_ROWS = 10_000
"""Rows of the record batches, as Spark hands them over."""

PEERS = ("nats_py_publish_async", "nats_jetstream_publish", "natsio_publish_async", "natsrpy_publish")
"""The functions of the peers for this figure."""


@figure("raw_publish", group="raw")
def raw_publish(run: Run) -> float:
    """One block of frames, encoded before, written over and over with a bounded window; the acks are only counted."""
    count = run.count(MESSAGES)
    with run.target(count) as (_, subject), connected(run.url) as connection:
        frames = encoded(subject, f"{connection.inbox}.p", BLOCK, PAYLOAD)
        return count / publish(connection, frames, count)


@figure("bulk_publish", group="bulk", reference="raw_publish", against=PEERS)
def bulk_publish(run: Run) -> float:
    """Record batches of subject and data, every ack checked."""
    count = run.count(MESSAGES)
    with run.target(count) as (_, subject), bulk.connect(run.url) as connection:
        batches = record_batches(subject, count)
        begin = time.perf_counter()
        report = bulk.publish(connection, batches)
        seconds = time.perf_counter() - begin
    if report.count != count:
        raise RuntimeError(f"{report.count} rows of {count} were acknowledged")
    return count / seconds


def record_batches(subject: str, count: int) -> list[pa.RecordBatch]:
    """`count` rows to publish; the batches share their memory, as the blocks of the raw publish do."""
    rows = min(BATCH_ROWS, count)
    batch = pa.record_batch(
        {
            "subject": pa.array([subject] * rows, pa.string()),
            "data": pa.array([payload(number, PAYLOAD) for number in range(rows)], pa.binary()),
        }
    )
    whole, rest = divmod(count, rows)
    return [batch] * whole + ([batch.slice(0, rest)] if rest else [])
