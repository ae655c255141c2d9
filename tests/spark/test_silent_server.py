"""A single server that is silent or restarts while the driver plans: the planning waits for `retryTimeout`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from tests.spark import micro_batches
from tests.spark.support import Nats, running

from jetspark.errors import ConnectError, JetStreamNotEnabledError, RequestTimeoutError
from jetspark.jetstream import RetentionPolicy
from jetspark.spark.connections import close_idle
from jetspark.spark.options.batch import read_options, write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.read.batch_reader import JetStreamReader
from jetspark.spark.schema import read_schema
from jetspark.spark.write.batch_writer import plan_write
from jetspark.spark.write.stream_writer import plan_stream_write
from jetspark.spark.write.unstored import UnstoredRows

FAST = {"requestTimeout": "100ms", "connectTimeout": "100ms", "retryTimeout": "30s"}
SCHEMA = read_schema(include_headers=False)
WORK_QUEUE: dict[str, object] = {"retention": RetentionPolicy.WORK_QUEUE, "allow_direct": True}


@contextmanager
def silent_for_a_moment(nats: Nats, *, keep: bool) -> Iterator[None]:
    """Pause the server for longer than a request may take. `keep` leaves the idle connections open."""
    if not keep:
        close_idle()
    nats.server.pause()
    back = threading.Timer(0.35, nats.server.resume)
    back.start()
    try:
        yield
    finally:
        back.join()


def plan_batch(nats: Nats, stream: str, **options: str) -> int:
    given = {"servers": nats.url, "stream": stream, **FAST, **options}
    return len(JetStreamReader(SCHEMA, read_options(given)).partitions())


@pytest.mark.parametrize("keep", [True, False], ids=["on a kept connection", "on a new connection"])
@pytest.mark.parametrize("start", [{}, {"startingTimestamp": "2020-01-01T00:00:00Z"}], ids=["all", "by time"])
def test_a_batch_is_planned_after_the_silence(keep: bool, start: dict[str, str]) -> None:
    with running() as nats:
        nats.publish([f"{nats.stream('S')}.a"] * 5)
        assert plan_batch(nats, "S", **start) == 1
        with silent_for_a_moment(nats, keep=keep):
            assert plan_batch(nats, "S", **start) == 1


@pytest.mark.parametrize("keep", [True, False], ids=["on a kept connection", "on a new connection"])
def test_a_write_is_planned_after_the_silence(keep: bool) -> None:
    with running() as nats:
        given = {"servers": nats.url, "subject": f"{nats.stream()}.a", **FAST}
        with silent_for_a_moment(nats, keep=keep):
            plan_write(SCHEMA, write_options(given), overwrite=False)
        with silent_for_a_moment(nats, keep=keep):
            plan_stream_write(SCHEMA, stream_write_options({**given, "ledgerStream": "L"}), overwrite=False)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.matrix), {"commitMode": "purge"}],
    ids=["without commits", "with commits"],
)
def test_micro_batches_are_planned_after_the_silence(options: dict[str, str]) -> None:
    with running() as nats:
        stream = nats.filled(5, ("a",), **(WORK_QUEUE if options else {}))
        made = micro_batches.reader(nats, stream, **FAST, **options)
        with silent_for_a_moment(nats, keep=False):
            start = made.initialOffset()
        with silent_for_a_moment(nats, keep=True):
            end = micro_batches.latest(made, start)
        with silent_for_a_moment(nats, keep=True):
            assert micro_batches.rows(made, start, end) == [1, 2, 3, 4, 5]
        with silent_for_a_moment(nats, keep=True):
            made.commit(end)
        assert nats.info(stream).state.messages == (0 if options else 5)


def test_a_repeated_task_looks_up_its_rows_after_the_silence() -> None:
    with running() as nats:
        stream = nats.stream()
        rows = pa.record_batch({"subject": [f"{stream}.a"], "data": [b"x"], "msg_id": ["1"]})
        unstored = UnstoredRows(write_options({"servers": nats.url, **FAST}), None, 0, [])
        with silent_for_a_moment(nats, keep=True):
            assert [len(batch) for batch in unstored.filter([rows])] == [1]


def test_a_query_outlasts_a_lame_duck_and_its_restart() -> None:
    with running(config={"lame_duck_grace_period": "500ms", "lame_duck_duration": "30s"}) as nats:
        stream = nats.filled(5)
        made = micro_batches.reader(nats, stream, **{**FAST, "retryTimeout": "90s"})
        start = made.initialOffset()

        def restart() -> None:
            nats.server.wait_exit(60.0)
            nats.server.start()

        nats.server.lame_duck()
        back = threading.Thread(target=restart)
        back.start()
        end = micro_batches.latest(made, start)
        back.join()
        assert micro_batches.rows(made, start, end) == [1, 2, 3, 4, 5]


def test_a_server_that_stays_silent_is_an_error_after_the_retry_timeout() -> None:
    calls: list[Callable[[Nats, str], object]] = [
        lambda nats, stream: plan_batch(nats, stream, retryTimeout="500ms"),
        lambda nats, stream: micro_batches.reader(nats, stream, **{**FAST, "retryTimeout": "500ms"}).initialOffset(),
    ]
    with running() as nats:
        stream = nats.filled(5)
        plan_batch(nats, stream)
        nats.server.pause()
        for call in calls:
            with pytest.raises((ConnectError, RequestTimeoutError)):
                call(nats, stream)
        nats.server.resume()


def test_a_wrong_address_or_domain_is_reported_at_once() -> None:
    long = {"retryTimeout": "1h"}
    with running() as nats:
        stream = nats.filled(5)
        with pytest.raises(JetStreamNotEnabledError):
            plan_batch(nats, stream, domain="elsewhere", **long)
        nats.server.stop()
        with pytest.raises(ConnectError, match=str(nats.server.port)):
            plan_batch(nats, stream, **long)
        with pytest.raises(ConnectError, match=str(nats.server.port)):
            plan_write(SCHEMA, write_options({"servers": nats.url, "subject": "a", **long}), overwrite=False)
