"""The end of a consume in a thread that reads at that moment: with the last messages and the reason."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from jetspark import sync
from jetspark.aio.jetstream._drivers.ordered_pull import OrderedPullDriver
from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.errors import ConsumerDeletedError, Error, StreamNotFoundError
from jetspark.server import NatsServer
from jetspark.sync.jetstream import ConsumeContext, Stream

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def connection(server: NatsServer) -> Iterator[sync.Connection]:
    with sync.connect(server.url) as connection:
        yield connection


@pytest.fixture
def other(server: NatsServer) -> Iterator[sync.Connection]:
    with sync.connect(server.url) as connection:
        yield connection


@pytest.fixture
def stream(connection: sync.Connection, other: sync.Connection) -> Stream:
    name = f"E{next(_numbers)}"
    other.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    return connection.jetstream().stream(name)


def begin(stream: Stream, *, ordered: bool) -> ConsumeContext:
    return stream.ordered_consumer().consume() if ordered else stream.create_consumer().consume()


class Reader(threading.Thread):
    """Takes all messages of a consume, and stays at the first one until it may continue."""

    def __init__(self, context: ConsumeContext) -> None:
        super().__init__(daemon=True)
        self.context = context
        self.got: list[bytes] = []
        self.error: Error | None = None
        self.begun, self.go = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        try:
            for message in self.context:
                self.got.append(message.payload)
                self.begun.set()
                self.go.wait(20)
        except Error as error:
            self.error = error

    def check_at_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this thread take all messages up to the end at the moment when the loop marks the end."""
        source = self.context._core.source

        def set_attribute(target: object, name: str, value: object) -> None:
            object.__setattr__(target, name, value)
            if target is source and name == "ended" and value:
                self.go.set()
                self.join(10)

        monkeypatch.setattr(type(source), "__setattr__", set_attribute, raising=False)


def unread(connection: sync.Connection, enough: Callable[[bytes], bool]) -> None:
    """Wait until the socket has enough bytes. This blocks the thread of the loop, which reads nothing meanwhile."""
    link = connection._core.inner._supervisor.session
    assert link is not None
    assert link._transport is not None
    deadline = time.monotonic() + 10
    with link._transport.get_extra_info("socket").dup() as inbound:
        data = b""
        while not enough(data):
            assert time.monotonic() < deadline, data
            time.sleep(0.002)
            try:
                data = inbound.recv(1 << 16, socket.MSG_PEEK)
            except BlockingIOError:
                continue


@pytest.mark.conformance("CNS-05")
@pytest.mark.parametrize("ordered", [False, True])
def test_a_reader_gets_the_messages_that_arrive_with_the_end_of_a_drain(
    connection: sync.Connection,
    other: sync.Connection,
    stream: Stream,
    ordered: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = begin(stream, ordered=ordered)
    reader = Reader(context)
    js = other.jetstream()
    js.publish(f"{stream.name}.a", b"0")
    assert reader.begun.wait(10)
    reader.check_at_the_end(monkeypatch)
    stands, published = threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        published.wait(10)
        unread(connection, lambda data: data.count(b"$JS.ACK.") == 3)
        context._core.source.drain()
        connection._core.inner.flush_now()
        unread(connection, lambda data: b"PONG\r\n" in data)

    connection._core.call_soon(stand_still)
    assert stands.wait(10)
    for payload in (b"1", b"2", b"3"):
        js.publish(f"{stream.name}.a", payload)
    published.set()
    reader.join(20)
    assert reader.got == [b"0", b"1", b"2", b"3"]
    assert reader.error is None
    assert context.closed


@pytest.mark.parametrize(
    ("ordered", "kind", "error"),
    [(False, PullDriver, ConsumerDeletedError), (True, OrderedPullDriver, StreamNotFoundError)],
)
def test_a_reader_gets_the_error_that_ended_it(
    other: sync.Connection,
    stream: Stream,
    ordered: bool,
    kind: type[object],
    error: type[Error],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = begin(stream, ordered=ordered)
    assert type(context._core.source) is kind
    reader = Reader(context)
    js = other.jetstream()
    js.publish(f"{stream.name}.a", b"0")
    assert reader.begun.wait(10)
    reader.check_at_the_end(monkeypatch)
    if ordered:
        js.delete_stream(stream.name)
    else:
        [name] = js.consumer_names(stream.name)
        js.delete_consumer(stream.name, name)
    reader.join(20)
    assert reader.got == [b"0"]
    assert type(reader.error) is error


def test_wait_closed_includes_the_last_message_even_if_the_consume_ended_before_a_report(
    connection: sync.Connection, other: sync.Connection, stream: Stream
) -> None:
    for number in range(4):
        other.jetstream().publish(f"{stream.name}.a", b"%d" % number)
    context = stream.create_consumer().consume(max_messages=4)
    deadline = time.monotonic() + 10
    while context.pending[0] < 4:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    stands, reported = threading.Event(), threading.Event()

    def posted() -> bool:
        return context._core._report_scheduled

    def stand_still() -> None:
        stands.set()
        reported.wait(10)
        context._core.source.stop()

    connection._core.call_soon(stand_still)
    assert stands.wait(10)
    assert next(context).payload == b"0"
    assert posted()
    reported.set()
    connection.flush()
    assert not posted()
    waiter = threading.Thread(target=context.wait_closed, args=(20,), daemon=True)
    waiter.start()
    while not context._core.inner._waiters:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert [message.payload for message in context] == [b"1", b"2", b"3"]
    waiter.join(10)
    assert not waiter.is_alive()


@pytest.mark.parametrize("read", [0, 2])
def test_after_stop_an_ordered_consume_is_at_the_last_taken_message(
    other: sync.Connection, stream: Stream, read: int
) -> None:
    for number in range(4):
        other.jetstream().publish(f"{stream.name}.a", b"%d" % number)
    reader = stream.ordered_consumer()
    with reader.consume(max_messages=4) as context:
        for number in range(read):
            assert next(context).payload == b"%d" % number
    assert [message.payload for message in reader.fetch(4 - read, timeout=5)] == [
        b"%d" % number for number in range(read, 4)
    ]
