"""Rows that one attempt sends again after the duplicate window: the task first looks up which are stored."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy
from tests.spark.sink import ROWS, SHORT, batches, data, forget, task
from tests.spark.support import Nats, running

from jetspark.spark.options.batch import write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.batch_writer import plan_write
from jetspark.spark.write.commit_message import TaskCommitMessage
from jetspark.spark.write.stream_writer import plan_stream_write

COUNT = 2000


@pytest.fixture(scope="module")
def own() -> Iterator[Nats]:
    """A server that a test may kill."""
    with running() as nats:
        yield nats


class LongOutage:
    """Loses the first acknowledgement, and with it the connection, when the stream has forgotten the message ids."""

    def __init__(self, nats: Nats, stream: str, *, killed: bool) -> None:
        self._nats = nats
        self._stream = stream
        self._killed = killed

    def __call__(self, answer: bytes) -> bytes | None:
        if f'"stream":"{self._stream}"'.encode() not in answer:
            return answer
        if self._killed:
            self._nats.server.kill()
            self._nats.server.restart()
            self._nats.connection.reconnect()
        forget(self._nats, self._stream)
        return None


def write_batch(url: str, rows: Iterator[pa.RecordBatch], options: dict[str, str]) -> TaskCommitMessage:
    return plan_write(ROWS, write_options({"servers": url, **options}), overwrite=False).write(rows)


def write_stream(url: str, rows: Iterator[pa.RecordBatch], options: dict[str, str]) -> TaskCommitMessage:
    made = plan_stream_write(ROWS, stream_write_options({"servers": url, **options}), overwrite=False)
    return made.publish(task(partition=len(options)), rows)


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (write_batch, {}),
        (write_batch, {"atomic": "true"}),
        (write_stream, {}),
        (write_stream, {"atomic": "true", "expectedStream": "given"}),
        (write_stream, {"ledgerStream": "PROGRESS"}),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
def test_an_outage_longer_than_the_duplicate_window_stores_no_row_twice(
    own: Nats,
    write: Callable[[str, Iterator[pa.RecordBatch], dict[str, str]], TaskCommitMessage],
    options: dict[str, str],
    killed: bool,
) -> None:
    stream = own.stream(duplicate_window=SHORT, allow_atomic=True)
    given = {**options, "expectedStream": stream} if "expectedStream" in options else options
    with Proxy(own.server, LongOutage(own, stream, killed=killed)) as proxy:
        done = write(proxy.url, iter(batches(stream, range(COUNT))), given)
    assert done.skipped > 0
    stored = sum(each.count - each.duplicates for each in done.streams.values())
    assert stored + done.skipped == COUNT
    assert sorted(data(own, stream)) == list(range(COUNT))


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "options"),
    [(write_batch, {}), (write_stream, {}), (write_stream, {"ledgerStream": "PROGRESS"})],
    ids=["batch", "stream", "ledger"],
)
def test_a_server_that_is_down_for_longer_than_the_duplicate_window_of_two_seconds_stores_no_row_twice(
    own: Nats,
    write: Callable[[str, Iterator[pa.RecordBatch], dict[str, str]], TaskCommitMessage],
    options: dict[str, str],
) -> None:
    """The server is killed in the middle of a task of 60,000 rows, and is down for 5 seconds."""
    stream = own.stream(duplicate_window=timedelta(seconds=2))
    restarted = threading.Timer(5, own.server.restart)

    def rows() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(stream, range(60_000), size=2000)):
            if number == 15:
                own.server.kill()
                restarted.start()
            yield batch

    done = write(own.url, rows(), options)
    restarted.join()
    own.connection.reconnect()
    stored = sum(each.count - each.duplicates for each in done.streams.values())
    assert stored + done.skipped == 60_000
    assert Counter(data(own, stream)) == Counter(range(60_000))
