"""Handlers side by side in threads: `consume(callback, concurrency=...)` of the blocking front."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from jetspark import sync
from jetspark.errors import ConfigError
from jetspark.server import NatsServer
from jetspark.sync.jetstream import Consumer
from jetspark.sync.message import Msg

COUNT = 3000


@pytest.fixture
def consumer(request: pytest.FixtureRequest) -> Iterator[Consumer]:
    """A consumer of a stream with messages of one byte to 100. Its parameter: how many it delivers without an ack."""
    pending: int = getattr(request, "param", COUNT)
    with NatsServer() as server, sync.connect(server.url) as connection:
        js = connection.jetstream()
        stream = js.create_stream(name="S", subjects=["s"])
        for number in range(COUNT):
            js.publish_async("s", b"x" * (number % 100 + 1))
        js.publish_async_completed()
        yield stream.create_consumer(durable_name="c", ack_policy="explicit", max_ack_pending=pending)


def test_handlers_run_at_the_same_time_in_threads_of_their_own(consumer: Consumer) -> None:
    together = threading.Barrier(5)
    threads: set[int] = set()

    def handle(message: Msg) -> None:
        threads.add(threading.get_ident())
        if message.metadata.stream_sequence <= 5:
            together.wait(20)
        message.ack()

    context = consumer.consume(handle, concurrency=5)
    while consumer.info().ack_floor.stream_sequence < COUNT:
        pass
    context.stop()
    assert len(threads) == 5
    assert consumer.info().num_ack_pending == 0


def test_many_threads_count_each_byte_once(consumer: Consumer) -> None:
    sizes: list[int] = []
    complete = threading.Event()

    def handle(message: Msg) -> None:
        sizes.append(len(message.raw_header) + len(message.payload))
        if len(sizes) == COUNT:
            complete.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        context = consumer.consume(handle, concurrency=8, max_bytes=1 << 16)
        assert complete.wait(60)
    finally:
        sys.setswitchinterval(before)
    context.stop()
    assert len(sizes) == COUNT


@pytest.mark.parametrize("consumer", [3], indirect=True)  # so that no handler gets a second message
def test_stop_waits_for_the_running_handlers(consumer: Consumer) -> None:
    running = threading.Barrier(4)
    go = threading.Event()
    ended: list[int] = []

    def handle(message: Msg) -> None:
        running.wait(20)
        assert go.wait(20)
        ended.append(message.metadata.stream_sequence)

    context = consumer.consume(handle, concurrency=3, max_messages=3)
    running.wait(20)
    stopping = threading.Thread(target=context.stop)
    stopping.start()
    assert not ended
    go.set()
    stopping.join(20)
    assert not stopping.is_alive()
    assert sorted(ended) == [1, 2, 3]


def test_a_wrong_number_of_handlers_is_refused(consumer: Consumer) -> None:
    with pytest.raises(ConfigError, match="needs a callback"):
        consumer.consume(concurrency=2)
    with pytest.raises(ConfigError, match="concurrency must be"):
        consumer.consume(print, concurrency=0)
    with pytest.raises(ConfigError, match="1 to 1000, not 1000000; share the work among several processes"):
        consumer.consume(print, concurrency=1_000_000)
