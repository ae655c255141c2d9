"""Helpers for the tests of the streaming sink: tasks that write, with and without a record, and streams that forget."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.errors import StreamNotFoundError
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.ledger import TaskName
from jetspark.spark.write.stream_writer import JetStreamStreamWriter, plan_stream_write

__all__ = [
    "PROGRESS",
    "QUERY",
    "ROWS",
    "SHORT",
    "WITH_IDS",
    "batches",
    "data",
    "forget",
    "forget_records",
    "recorded",
    "task",
    "until_lost",
    "writer",
]

ROWS = StructType().add("subject", "string").add("data", "binary")
WITH_IDS = StructType().add("subject", "string").add("data", "binary").add("msg_id", "string")
SHORT = timedelta(milliseconds=100)
PROGRESS = "SPARK_PROGRESS"
QUERY = "5a1ab67e-6a32-4b02-9d2d-5a1ab67e6a32"

_probes = itertools.count(1)


def task(batch: int = 0, partition: int = 0) -> TaskName:
    return TaskName(QUERY, batch, partition)


def writer(nats: Nats, schema: StructType = ROWS, /, **options: str) -> JetStreamStreamWriter:
    return plan_stream_write(schema, stream_write_options({"servers": nats.url, **options}), overwrite=False)


def batches(stream: str, numbers: Iterable[int], size: int = 100, ids: str | None = None) -> list[pa.RecordBatch]:
    rows = list(numbers)
    made = []
    for part in (rows[at : at + size] for at in range(0, len(rows), size)):
        columns = {"subject": [f"{stream}.{number % 2}" for number in part], "data": [b"%d" % each for each in part]}
        if ids is not None:
            columns["msg_id"] = [f"{ids}{number}" for number in part]
        made.append(pa.record_batch(columns))
    return made


def until_lost(nats: Nats, parts: list[pa.RecordBatch], count: int, together: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield a number of parts, and then lose the task, when the streams have exactly the rows that were sent.

    Streams may store rows of a lost connection later, or never.

    Parameters
    ----------
    together
        Rows that are stored together or not at all; the last rows of a stream are not.
    """
    subjects = [subject for part in parts[:count] for subject in part.column("subject").to_pylist()]
    sent = Counter(subject.partition(".")[0] for subject in subjects)
    before = {stream: nats.info(stream).state.last_sequence for stream in sent}

    def stored(stream: str) -> int:
        return nats.info(stream).state.last_sequence - before[stream]

    yield from parts[:count]
    deadline = time.monotonic() + 60.0
    while any(stored(stream) < rows // together * together for stream, rows in sent.items()):
        assert time.monotonic() < deadline, sent
        time.sleep(0.01)  # the task waits for the confirmation of the server
    raise ConnectionResetError("the task is lost")


def data(nats: Nats, stream: str) -> list[int]:
    found = [row["data"] for row in nats.rows(stream, "data")]
    return [int(each) for each in found if isinstance(each, bytes)]


def forget(nats: Nats, stream: str, subject: str | None = None) -> None:
    """Wait until the stream accepts a repeated message id; `subject` is one of the stream's that is not used."""
    subject = subject or f"{stream}.probe"
    # With its own id: an id of an earlier call is forgotten before the ids of later rows.
    probe = pa.record_batch({"subject": [subject], "data": ["0"], "msg_id": [f"probe{next(_probes)}"]})
    bulk.publish(nats.connection, probe)
    deadline = time.monotonic() + 30
    while (report := bulk.publish(nats.connection, probe)).duplicates:
        assert time.monotonic() < deadline
    # At any sequence: a row of a lost task may have arrived in between.
    nats.connection.request(StreamPurgeRequest(stream, filter=subject))
    assert report.count == 1


def recorded(nats: Nats, schema: StructType = ROWS, /, **options: str) -> JetStreamStreamWriter:
    return writer(nats, schema, ledgerStream=PROGRESS, **options)


def forget_records(nats: Nats) -> None:
    """Delete the records of micro-batches, because all tests use the same query."""
    with contextlib.suppress(StreamNotFoundError):
        nats.purge(PROGRESS)
