"""Close and drain of the blocking front while callbacks still run: they take the time they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from jetspark import sync
from jetspark.aio import core
from jetspark.errors import ConnectionClosedError, DrainTimeoutError
from jetspark.events import Event
from jetspark.server import NatsServer


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds callbacks; they go on at the end of the test at the latest."""
    gate = threading.Event()
    yield gate
    gate.set()


class Busy:
    """A callback that waits at its first message."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.begun = threading.Event()
        self.count = 0

    def __call__(self, _: object) -> None:
        self.count += 1
        self.begun.set()
        self.gate.wait(60)


def wait_until(condition: object) -> None:
    deadline = time.monotonic() + 20
    while not (condition() if callable(condition) else condition):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_drain_that_times_out_ends_then_and_hands_out_nothing_afterwards(
    server: NatsServer, gate: threading.Event
) -> None:
    connection = sync.connect(server.url)
    busy = [Busy(gate) for _ in range(3)]
    subscriptions = [connection.subscribe("many", callback=each) for each in busy]
    for _ in range(20):
        connection.publish("many")
    connection.flush()
    wait_until(lambda: all(each.begun.is_set() for each in busy))
    began = time.monotonic()
    with pytest.raises(DrainTimeoutError, match="57 messages dropped"):
        connection.drain(0.2)
    assert time.monotonic() - began < 3  # the callbacks take longer
    gate.set()
    threads = [subscription._core._thread for subscription in subscriptions]
    for thread in threads:
        assert thread is not None
        thread.join(20)
    assert [each.count for each in busy] == [1, 1, 1]


def test_a_close_waits_once_for_all_callbacks_and_for_the_handler_of_events(
    server: NatsServer, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_CLOSE_TIMEOUT", 0.6)

    def on_event(_: Event) -> None:
        gate.wait(60)

    connection = sync.connect(server.url, on_event=on_event)
    busy = [Busy(gate) for _ in range(4)]
    for each in busy:
        connection.subscribe("busy", callback=each)
    connection.publish("busy")
    wait_until(lambda: all(each.begun.is_set() for each in busy))
    began = time.monotonic()
    connection.close()
    assert time.monotonic() - began < 2.8  # once for the handler, and once for all callbacks


def test_an_error_handler_gets_the_close_also_if_the_callback_ends_after_it(
    server: NatsServer, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_CLOSE_TIMEOUT", 0.6)
    connection = sync.connect(server.url)
    js = connection.jetstream()
    js.create_stream(name="CLOSE", subjects=["close"])
    js.publish("close")
    busy, errors = Busy(gate), list[Exception]()
    context = js.ordered_consumer("CLOSE").consume(busy, on_error=errors.append)
    assert busy.begun.wait(20)
    connection.close()
    assert errors == []
    gate.set()
    wait_until(lambda: errors)
    assert [type(error) for error in errors] == [ConnectionClosedError]
    with pytest.raises(ConnectionClosedError):
        context.wait_closed(20)


def test_a_slow_error_handler_is_called_for_each_error_before_a_close_returns(server: NatsServer) -> None:
    errors: list[Exception] = []

    def on_error(error: Exception) -> None:
        time.sleep(0.1)
        errors.append(error)

    connection = sync.connect(server.url)
    js = connection.jetstream()
    js.create_stream(name="SLOW", subjects=["slow"])
    contexts = [js.ordered_consumer("SLOW").consume(lambda _: None, on_error=on_error) for _ in range(3)]
    connection.close()
    assert [type(error) for error in errors] == [ConnectionClosedError] * 3
    assert all(context.closed for context in contexts)
