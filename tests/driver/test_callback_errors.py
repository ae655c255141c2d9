"""A callback that raises: its traceback is in the log, and the event names the callback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from tests.driver.jetstream import ConsumerScript, StreamScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import CredentialsCallbackError, SubscriptionClosedError
from jetspark.wire.events import ErrorOccurred, Event, Reconnected

SECRET = b"a payload that belongs in no log"


def look_up_price() -> None:
    raise KeyError("missing key")


class Worker:
    """Callbacks of a program."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def handle(self, message: aio.Msg) -> None:
        self.got.append(message.payload)
        look_up_price()

    async def handle_async(self, message: aio.Msg) -> None:
        self.handle(message)

    async def __call__(self, message: aio.Msg) -> None:
        self.handle(message)


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log shows of each error, with its traceback."""
    formatter = logging.Formatter("%(message)s")
    return [formatter.format(record) for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("kind", ["handle", "handle_async", "__call__", "partial"])
async def test_an_exception_in_a_subscription_shows_its_traceback_subject_subscription_and_callback(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    worker = Worker()
    callbacks: dict[str, tuple[Callable[[aio.Msg], Awaitable[None] | None], str]] = {
        "handle": (worker.handle, "Worker.handle"),
        "handle_async": (worker.handle_async, "Worker.handle_async"),
        "__call__": (worker, "Worker"),
        "partial": (partial(worker.handle), "Worker.handle"),
    }
    callback, name = callbacks[kind]
    connection = await world.connect()
    subscription = await connection.subscribe("orders.*", callback=callback)
    await clock.settle()
    server.session.deliver("orders.7", SECRET)
    server.session.deliver("orders.8", SECRET)
    await clock.settle()
    first, second = world.events.of(ErrorOccurred)
    assert isinstance(first.error, KeyError)
    assert (first.callback, first.subject, second.subject) == (name, "orders.7", "orders.8")
    assert first.subscription == f"subscription {subscription.sid} to 'orders.*'"
    log = failures(caplog)[0]
    for part in (name, "orders.7", str(first.subscription), "look_up_price", "KeyError: 'missing key'"):
        assert part in log
    assert SECRET.decode() not in caplog.text + repr(first)
    assert not subscription.closed


@pytest.mark.parametrize("with_handler", [False, True])
async def test_an_exception_in_a_consume_shows_its_traceback_subject_consumer_and_callback(
    world: World, worker: ConsumerScript, clock: Clock, caplog: pytest.LogCaptureFixture, *, with_handler: bool
) -> None:
    user = Worker()
    passed: list[Exception] = []
    consumer = await (await world.connect()).jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(user.handle, on_error=passed.append if with_handler else None)
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    assert len(user.got) == 2
    log = failures(caplog)[0]
    for part in ("Worker.handle", "orders.", "ORDERS/worker", "look_up_price", "KeyError: 'missing key'"):
        assert part in log
    events = world.events.of(ErrorOccurred)
    assert (len(events), len(passed)) == ((0, 2) if with_handler else (2, 0))
    for event in events:
        assert (event.callback, event.subscription) == ("Worker.handle", "consume of ORDERS/worker")
        assert event.subject is not None
    assert [error for error in passed if error.__traceback__ is None] == []
    await context.stop()


async def test_an_exception_of_an_error_handler_shows_its_traceback(
    world: World, worker: ConsumerScript, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def note(_: Exception) -> None:
        look_up_price()

    consumer = await (await world.connect()).jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(on_error=note)
    await clock.settle()
    worker.pull.status("409 Leadership Change")
    await clock.settle()
    [event] = world.events.of(ErrorOccurred)
    assert event.callback is not None
    assert event.callback.endswith("note")
    [log] = failures(caplog)
    assert "look_up_price" in log
    await context.stop()


async def test_an_exception_of_the_error_handler_of_publishes_shows_its_traceback_and_the_subject(
    world: World, stream: StreamScript, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def note(_: object) -> None:
        look_up_price()

    js = await world.jetstream(on_error=note)
    stream.answers = "404 What"
    await js.publish_async("orders.new")
    await clock.settle()
    [event] = world.events.of(ErrorOccurred)
    assert event.subject == "orders.new"
    assert event.callback is not None
    assert event.callback.endswith("note")
    [log] = failures(caplog)
    assert "look_up_price" in log


async def test_an_exception_of_the_event_handler_shows_its_traceback_and_the_handler(
    world: World, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def on_event(_: Event) -> None:
        look_up_price()

    await world.connect(on_event=on_event)
    await clock.settle()
    [log] = failures(caplog)
    assert "on_event" in log
    assert "look_up_price" in log


async def test_an_exception_of_a_credentials_function_shows_its_traceback_and_the_function(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    answers = ["first"]

    def password() -> str:
        if not answers:
            look_up_price()
        return answers.pop()

    await world.connect(user="ada", password=password)
    server.session.reset()
    await clock.settle()
    event = world.events.of(ErrorOccurred)[0]
    assert isinstance(event.error, CredentialsCallbackError)
    assert isinstance(event.error.__cause__, KeyError)
    assert event.callback is not None
    assert event.callback.endswith("password")
    assert "look_up_price" in failures(caplog)[0]
    answers.append("second")
    await clock.until(clock.now + 10)
    assert world.events.of(Reconnected)


async def test_a_credentials_function_that_raises_fails_the_first_connect(world: World, server: MemoryServer) -> None:
    with pytest.raises(CredentialsCallbackError, match=r"look_up_price raised KeyError") as caught:
        await world.connect(user="ada", password=look_up_price)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_error_that_no_callback_raised_is_one_short_line(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await world.connect()
    server.session.error("Invalid Subject")
    await clock.settle()
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.startswith("ErrorOccurred(error=ProtocolError(")
    assert "None" not in line


async def cancelled(_: object) -> None:
    """Await something that another one has cancelled."""
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    await other


@pytest.mark.parametrize("kind", ["subscription", "consume", "on_error"])
async def test_a_cancellation_inside_a_callback_is_reported_and_the_next_message_comes(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, kind: str
) -> None:
    connection = await world.connect()
    got: list[bytes] = []

    async def work(message: aio.Msg) -> None:
        got.append(message.payload)
        await cancelled(message)

    if kind == "subscription":
        await connection.subscribe("a", callback=work)
        await clock.settle()
        server.session.deliver("a", b"1")
        server.session.deliver("a", b"2")
    else:
        consumer = await connection.jetstream().consumer("ORDERS", "worker")
        consumer.consume(
            work if kind == "consume" else Worker().handle, on_error=cancelled if kind != "consume" else None
        )
        await clock.settle()
        worker.pull.fill(2)
    await clock.settle()
    if kind != "on_error":
        assert got == [b"1", b"2"]
    errors = [event.error for event in world.events.of(ErrorOccurred)]
    assert [type(error.__cause__) for error in errors] == [asyncio.CancelledError] * 2


async def test_a_cancellation_inside_the_event_handler_is_logged_and_the_next_event_comes(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def on_event(event: Event) -> None:
        seen.append(type(event).__name__)
        await cancelled(event)

    await world.connect(on_event=on_event)
    server.session.reset()
    await clock.settle()
    assert seen == ["Connected", "Disconnected", "Reconnected"]
    assert len(failures(caplog)) == 3


async def test_a_consume_whose_callback_task_is_cancelled_ends_with_an_error(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await (await world.connect()).jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(Worker().handle)
    await clock.settle()
    [task] = [task for task in asyncio.all_tasks() if task.get_name().startswith("jetspark consume")]
    task.cancel()
    with pytest.raises(SubscriptionClosedError, match="was cancelled"):
        await context.wait_closed()
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, SubscriptionClosedError)
    await clock.settle()


async def test_a_consume_that_is_stopped_reports_no_error(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await (await world.connect()).jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(Worker().handle)
    await clock.settle()
    await context.stop()
    await context.wait_closed()
    assert not world.events.of(ErrorOccurred)
