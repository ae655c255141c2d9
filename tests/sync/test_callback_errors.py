"""A callback of the blocking front that raises, also `SystemExit`: its traceback is in the log."""

from __future__ import annotations

import itertools
import logging
import queue
import sys
from collections.abc import Callable, Iterator

import pytest

from jetspark import bulk, sync
from jetspark.errors import CredentialsCallbackError
from jetspark.events import ErrorOccurred, Event
from jetspark.server import NatsServer
from jetspark.sync.jetstream import Stream

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


class Program:
    """A program with one connection; its callbacks keep what they get."""

    def __init__(self, server: NatsServer) -> None:
        self.errors: queue.Queue[ErrorOccurred] = queue.Queue()
        self.passed: queue.Queue[Exception] = queue.Queue()
        self.events: queue.Queue[Event] = queue.Queue()
        self.got: queue.Queue[bytes] = queue.Queue()
        self.connection = sync.connect(server.url, on_event=self.on_event)

    def on_event(self, event: Event) -> None:
        if isinstance(event, ErrorOccurred):
            self.errors.put(event)

    def fail(self, message: sync.Msg) -> None:
        self.got.put(message.payload)
        raise KeyError("missing key")

    def exit(self, message: sync.Msg) -> None:
        self.got.put(message.payload)
        sys.exit(3)

    def exit_at_event(self, event: Event) -> None:
        self.events.put(event)
        sys.exit(3)

    def exit_at_error(self, error: Exception) -> None:
        self.passed.put(error)
        sys.exit(3)


@pytest.fixture
def program(server: NatsServer) -> Iterator[Program]:
    program = Program(server)
    with program.connection:
        yield program


@pytest.fixture
def stream(program: Program) -> Stream:
    name = f"S{next(_numbers)}"
    return program.connection.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")


def traces(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = logging.Formatter("%(message)s")
    return [formatter.format(record) for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(("kind", "text"), [("fail", "KeyError: 'missing key'"), ("exit", "SystemExit: 3")])
def test_a_subscription_goes_on_and_shows_the_traceback(
    program: Program, caplog: pytest.LogCaptureFixture, kind: str, text: str
) -> None:
    subscription = program.connection.subscribe("a.*", callback=getattr(program, kind))
    for number in range(2):
        program.connection.publish(f"a.{number}", b"%d" % number)
    events = [program.errors.get(timeout=10) for _ in range(2)]
    assert [program.got.get(timeout=10) for _ in range(2)] == [b"0", b"1"]
    assert [event.subject for event in events] == ["a.0", "a.1"]
    assert {event.callback for event in events} == {f"Program.{kind}"}
    assert {event.subscription for event in events} == {f"subscription {subscription.sid} to 'a.*'"}
    assert all(f"in {kind}" in trace and text in trace for trace in traces(caplog))
    assert len(traces(caplog)) == 2


@pytest.mark.parametrize(("kind", "text"), [("fail", "KeyError: 'missing key'"), ("exit", "SystemExit: 3")])
def test_a_push_subscription_goes_on_and_shows_the_traceback(
    program: Program, stream: Stream, caplog: pytest.LogCaptureFixture, kind: str, text: str
) -> None:
    js = program.connection.jetstream()
    subscription = js.subscribe(f"{stream.name}.>", callback=getattr(program, kind))
    js.publish(f"{stream.name}.a", b"1")
    event = program.errors.get(timeout=10)
    assert (event.callback, event.subject) == (f"Program.{kind}", f"{stream.name}.a")
    assert event.subscription is not None
    assert f"subscription {subscription.sid} " in event.subscription
    assert text in traces(caplog)[0]


@pytest.mark.parametrize("with_handler", [False, True])
@pytest.mark.parametrize(("kind", "text"), [("fail", "KeyError: 'missing key'"), ("exit", "SystemExit: 3")])
def test_a_consume_goes_on_and_shows_the_traceback(
    program: Program, stream: Stream, caplog: pytest.LogCaptureFixture, kind: str, text: str, *, with_handler: bool
) -> None:
    for number in range(2):
        program.connection.jetstream().publish(f"{stream.name}.{number}", b"%d" % number)
    consumer = stream.create_consumer(ack_policy="none")
    with consumer.consume(getattr(program, kind), on_error=program.passed.put if with_handler else None) as context:
        assert [program.got.get(timeout=10) for _ in range(2)] == [b"0", b"1"]
        if with_handler:
            errors = [program.passed.get(timeout=10) for _ in range(2)]
            assert [type(error) for error in errors] == [KeyError if kind == "fail" else RuntimeError] * 2
        else:
            events = [program.errors.get(timeout=10) for _ in range(2)]
            assert [event.subject for event in events] == [f"{stream.name}.0", f"{stream.name}.1"]
            assert {event.callback for event in events} == {f"Program.{kind}"}
            assert {event.subscription for event in events} == {f"consume of {stream.name}/{consumer.name}"}
        assert not context.closed
    assert all(f"in {kind}" in trace and text in trace for trace in traces(caplog))


def test_an_error_handler_that_calls_exit_shows_its_traceback(
    program: Program, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    program.connection.jetstream().publish(f"{stream.name}.a")
    with stream.create_consumer(ack_policy="none").consume(program.fail, on_error=program.exit_at_error):
        assert isinstance(program.passed.get(timeout=10), KeyError)
        event = program.errors.get(timeout=10)
    assert event.callback == "Program.exit_at_error"
    assert isinstance(event.error.__cause__, SystemExit)
    assert "in exit_at_error" in traces(caplog)[1]


def test_an_event_handler_that_calls_exit_shows_its_traceback_and_gets_the_next_event(
    server: NatsServer, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.connect(server.url, on_event=program.exit_at_event) as connection:
        connection.subscribe("a", callback=program.fail)
        connection.publish("a")
        seen = [type(program.events.get(timeout=10)).__name__ for _ in range(2)]
        connection.flush()
    assert seen == ["Connected", "ErrorOccurred"]
    shown = [trace for trace in traces(caplog) if "Program.exit_at_event" in trace]
    assert "in exit_at_event" in shown[0]


@pytest.mark.parametrize("connect", [sync.connect, bulk.connect])
@pytest.mark.parametrize("error", [KeyError("none"), ValueError("none"), SystemExit(3)])
def test_a_credentials_function_that_raises_fails_the_connect(
    server: NatsServer, connect: Callable[..., object], error: BaseException
) -> None:
    def token() -> str:
        raise error

    with pytest.raises(CredentialsCallbackError, match=r"the credentials function .*token raised") as caught:
        connect(server.url, token=token)
    assert caught.value.__cause__ is error
