"""Connections that nobody closes: the last reference, and the end of `asyncio.run`, give everything back."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.connection.support import eventually

from jetspark import aio, sync
from jetspark.errors import ConnectionClosedError
from jetspark.server import NatsServer

PROGRAM = """
import asyncio, sys
from jetspark import aio

kept = []

async def wait(message):
    await asyncio.sleep(60)

async def main(url, kind):
    connection = await aio.connect(url)
    js = connection.jetstream()
    stream = await js.create_or_update_stream(name="RUN", subjects=["run"])
    consumer = await stream.create_or_update_consumer(durable_name="c", ack_policy="explicit")
    await js.publish("run", b"1")
    if kind != "dropped":
        kept.append(connection)
    if kind == "callback":
        kept.append(await connection.subscribe("x", callback=wait))
        await connection.publish("x", b"")
    elif kind == "consume":
        kept.append(consumer.consume(wait))
    elif kind == "push":
        kept.append(await js.subscribe("run", callback=wait))
    elif kind == "ordered":
        kept.append(stream.ordered_consumer().consume(wait))
    elif kind == "fetch":
        kept.append(asyncio.ensure_future(consumer.fetch(10, timeout=30)))
    elif kind == "columns":
        kept.append(asyncio.ensure_future(consumer.fetch_arrow(10, timeout=30).read_all()))
    elif kind == "publish":
        kept.append(await js.publish_async("run", b"2"))
    await connection.flush()
    await connection.publish("run", b"last")

for kind in sys.argv[2:]:
    asyncio.run(main(sys.argv[1], kind))
    kept.clear()
    print(kind)
"""

KINDS = ["dropped", "kept", "callback", "consume", "push", "ordered", "fetch", "columns", "publish"]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_the_end_of_asyncio_run_closes_a_connection_with_a_warning_only(server: NatsServer) -> None:
    quiet = run("-c", PROGRAM, server.url, *KINDS)
    assert (quiet.returncode, quiet.stdout.split(), quiet.stderr) == (0, KINDS, "")
    with sync.connect(server.url) as connection:
        assert connection.jetstream().stream("RUN").get_last_msg("run").payload == b"last"
    warned = run("-W", "always", "-c", PROGRAM, server.url, *KINDS)
    assert warned.returncode == 0
    assert warned.stderr.count("ResourceWarning: unclosed <Connection to nats://127.0.0.1") >= len(KINDS)
    assert "Traceback" not in warned.stderr
    assert "Task was destroyed" not in warned.stderr


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "jetspark" in each.name}


def connections(server: NatsServer) -> object:
    return server.monitor("/connz")["num_connections"]


@contextmanager
def warns_unclosed() -> Iterator[None]:
    with pytest.warns(ResourceWarning, match="unclosed <Connection to nats://127"):
        yield


async def collect() -> None:
    """Let the last references go: a subscription or a consume ends on the event loop, and then its connection."""
    for _ in range(30):
        gc.collect()
        await asyncio.sleep(0.01)


SYNC_USES: dict[str, Callable[[sync.Connection, Any], object]] = {
    "connection": lambda connection, _: connection,
    "context": lambda _, consumer: consumer,
    "subscription": lambda connection, _: connection.subscribe("x"),
    "consume": lambda _, consumer: next(iter(consumer.consume())),
    "fetch": lambda _, consumer: consumer.fetch(1, timeout=5),
    "pull": lambda connection, _: connection.jetstream().pull_subscribe("drop", durable="d"),
    "publish": lambda connection, _: connection.jetstream().publish_async("drop", b"1").result(5),
}


@pytest.mark.parametrize("use", SYNC_USES)
async def test_a_blocking_connection_without_references_ends_its_thread(server: NatsServer, use: str) -> None:
    def leave() -> None:
        connection = sync.connect(server.url)
        js = connection.jetstream()
        js.create_or_update_stream(name="DROP", subjects=["drop"])
        js.publish("drop", b"1")
        consumer = js.create_or_update_consumer("DROP", durable_name="c", ack_policy="explicit")
        SYNC_USES[use](connection, consumer)

    gc.collect()
    before, open_before = threads(), connections(server)
    with warns_unclosed():
        leave()
        await collect()
    await eventually(lambda: threads() <= before and connections(server) == open_before)


AIO_USES: dict[str, Callable[[aio.Connection, Any], Any]] = {
    "connection": lambda connection, _: connection.flush(),
    "subscription": lambda connection, _: connection.subscribe("x"),
    "consume": lambda _, consumer: anext(aiter(consumer.consume())),
    "fetch": lambda _, consumer: consumer.fetch(1, timeout=5),
    "pull": lambda connection, _: connection.jetstream().pull_subscribe("drop", durable="d"),
    "publish": lambda connection, _: connection.jetstream().publish("drop", b"1"),
}


@pytest.mark.parametrize("use", AIO_USES)
async def test_a_connection_without_references_closes_its_socket(server: NatsServer, use: str) -> None:
    async def leave() -> None:
        connection = await aio.connect(server.url)
        js = connection.jetstream()
        await js.create_or_update_stream(name="DROP", subjects=["drop"])
        await js.publish("drop", b"1")
        consumer = await js.create_or_update_consumer("DROP", durable_name="c", ack_policy="explicit")
        await AIO_USES[use](connection, consumer)

    gc.collect()
    tasks, open_before = asyncio.all_tasks(), connections(server)
    with warns_unclosed():
        await leave()
        await collect()
    await eventually(lambda: asyncio.all_tasks() <= tasks and connections(server) == open_before)


def subjects(server: NatsServer, connection: aio.Connection | sync.Connection) -> list[str]:
    """The subjects that the server knows of a connection."""
    found: Any = server.monitor("/connz", subs="1", cid=str(connection.server_info.client_id))
    return sorted(found["connections"][0].get("subscriptions_list", []))


@contextmanager
def warns_of_a_subscription() -> Iterator[None]:
    named = r"unclosed (<Subscription \d+ to '.+'>: unsubscribe|consume of .+: stop it), or use it in a `with` block"
    with pytest.warns(ResourceWarning, match=named):
        yield


SUBSCRIPTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "subscription": lambda connection, js: connection.subscribe("x"),
    "unread": lambda connection, js: connection.subscribe("x", max_msgs=1),
    "push": lambda connection, js: js.subscribe("drop"),
    "ordered push": lambda connection, js: js.subscribe("drop", ordered_consumer=True),
    "consume": lambda connection, js: js.ordered_consumer("DROP").consume(),
}


@pytest.mark.parametrize("kind", SUBSCRIPTIONS)
async def test_a_subscription_without_references_ends_with_a_warning(server: NatsServer, kind: str) -> None:
    async with await aio.connect(server.url) as connection:
        js = connection.jetstream()
        await js.create_or_update_stream(name="DROP", subjects=["drop"])
        before = subjects(server, connection)
        with warns_of_a_subscription():
            await SUBSCRIPTIONS[kind](connection, js)
            await collect()
        await eventually(lambda: subjects(server, connection) == before)
        await js.publish("drop", b"1")


@pytest.mark.parametrize("kind", SUBSCRIPTIONS)
async def test_a_blocking_subscription_without_references_ends_with_a_warning(server: NatsServer, kind: str) -> None:
    with sync.connect(server.url) as connection:
        js = connection.jetstream()
        js.create_or_update_stream(name="DROP", subjects=["drop"])
        before = subjects(server, connection)
        with warns_of_a_subscription():
            SUBSCRIPTIONS[kind](connection, js)
            await collect()
        await eventually(lambda: subjects(server, connection) == before)
        js.publish("drop", b"1")


async def test_an_active_callback_keeps_its_connection(server: NatsServer) -> None:
    got: asyncio.Queue[aio.Msg] = asyncio.Queue()

    async def begin() -> None:
        connection = await aio.connect(server.url)
        await connection.subscribe("kept", callback=got.put)
        await connection.flush()

    await begin()
    gc.collect()
    async with await aio.connect(server.url) as other:
        await other.publish("kept", b"1")
        message = await asyncio.wait_for(got.get(), 10)
    core: Any = message._connection
    await core.close()


async def test_a_message_of_a_connection_that_is_gone_says_so(server: NatsServer) -> None:
    async def receive() -> aio.Msg:
        connection = await aio.connect(server.url)
        js = connection.jetstream()
        await js.create_or_update_stream(name="DROP", subjects=["drop"])
        await js.publish("drop", b"1")
        return await (await js.create_or_update_consumer("DROP", durable_name="m")).next(timeout=5)

    with warns_unclosed():
        message = await receive()
        await collect()
    for call in (message.ack, message.nak, message.term, message.in_progress, message.ack_sync, message.respond):
        with pytest.raises(ConnectionClosedError, match="nobody held the connection"):
            await call()


INTERRUPTED = """
import os, signal, sys, threading, time
from jetspark import sync

url = sys.argv[1]

def forever(call):
    while True:
        call()

def interrupt(kind, call):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        print(kind)
        return
    raise SystemExit(f"{kind}: no KeyboardInterrupt")

def ended(kind):
    deadline = time.monotonic() + 20
    while any("jetspark connection" in each.name for each in threading.enumerate()):
        if time.monotonic() > deadline:
            raise SystemExit(f"{kind}: {threading.enumerate()}")
        time.sleep(0.01)

interrupt("connect", lambda: forever(lambda: sync.connect(url)))
ended("connect")
interrupt("connect and close", lambda: forever(lambda: sync.connect(url).close()))
ended("connect and close")

connection = sync.connect(url)
js = connection.jetstream()
stream = js.create_or_update_stream(name="INT", subjects=["int"])
consumer = js.create_or_update_consumer("INT", durable_name="c", ack_policy="explicit")
subscription = connection.subscribe("x")
calls = {
    "publish": lambda: forever(lambda: connection.publish("y", b"1")),
    "stored publish": lambda: forever(lambda: js.publish("int", b"1")),
    "publish_async": lambda: forever(lambda: js.publish_async("int", b"1")),
    "request": lambda: forever(lambda: js.account_info()),
    "flush": lambda: forever(connection.flush),
    "fetch": lambda: consumer.fetch(1 << 20, timeout=30),
    "columns": lambda: consumer.fetch_arrow(1 << 20, timeout=30).read_all(),
    "next": lambda: forever(lambda: consumer.next(timeout=30).ack()),
    "consume": lambda: forever(lambda: [each.ack() for each in consumer.consume()]),
    "next_msg": lambda: subscription.next_msg(timeout=30),
    "iteration": lambda: [each for each in subscription],
}
for kind, call in calls.items():
    interrupt(kind, call)
    connection.publish("x", b"usable")
    assert subscription.next_msg(timeout=30).payload == b"usable"
    js.publish("int", b"usable")
    assert stream.get_last_msg("int").payload == b"usable"
connection.close()
ended("calls")

for kind in ("drain", "close"):
    connection = sync.connect(url)
    busy = threading.Event()
    connection.subscribe("z", callback=lambda _: (busy.set(), time.sleep(1)))
    connection.publish("z")
    busy.wait(30)
    interrupt(kind, connection.drain if kind == "drain" else connection.close)
    connection.close()
    assert connection.closed
    ended(kind)
"""

INTERRUPTED_CALLS = [
    *("connect", "connect and close", "publish", "stored publish", "publish_async", "request", "flush", "fetch"),
    *("columns", "next", "consume", "next_msg", "iteration", "drain", "close"),
]


@pytest.mark.matrix
def test_an_interrupt_reaches_the_user_of_a_blocking_call(server: NatsServer) -> None:
    done = run("-c", INTERRUPTED, server.url)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, INTERRUPTED_CALLS, "")
