"""Every failure is noticed, no task or thread is left, and wrong use from another thread or loop raises."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest
from tests.connection.support import TEST_TIMEOUT, Front, Recorder, eventually

import jetspark
from jetspark import aio, sync
from jetspark.aio.core import ConnectionCore as AioCore
from jetspark.errors import ConnectionClosedError, NoMessageError, SubscriptionClosedError, WrongEventLoopError
from jetspark.sync.core import ConnectionCore as SyncCore
from jetspark.wire.errors import ProtocolError
from jetspark.wire.events import Closed, Disconnected, ErrorOccurred, Event, Reconnected
from jetspark.wire.messages import Message


@pytest.mark.usefixtures("no_leaks")
async def test_r54_a_fault_in_the_read_loop_is_a_lost_session_and_a_reconnect(url: str) -> None:
    recorder = Recorder()
    connection = await aio.connect(url, on_event=recorder)
    subscription = await connection.subscribe("a")

    def fault(message: Message) -> None:
        raise ZeroDivisionError("a fault of ours")

    broken = connection._core.client.subscribe("fault")
    broken.handler = fault
    connection._core.flush_soon()
    await connection.publish("fault")
    event = await recorder.wait(Disconnected)
    assert isinstance(event.error, ProtocolError)
    assert "ZeroDivisionError" in str(event.error)
    await recorder.wait(Reconnected)
    await connection.publish("a", b"alive")
    assert (await subscription.next_msg(5)).payload == b"alive"
    await connection.close()


@pytest.mark.usefixtures("no_leaks")
async def test_r54_the_death_of_the_supervising_task_is_a_lost_session_and_a_reconnect(url: str) -> None:
    recorder = Recorder()
    connection = await aio.connect(url, on_event=recorder)
    subscription = await connection.subscribe("a")
    await connection.flush()
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "jetspark connection"]
    task.cancel()
    await recorder.wait(Disconnected)
    await recorder.wait(Reconnected)
    await connection.publish("a", b"alive")
    assert (await subscription.next_msg(5)).payload == b"alive"
    await connection.close()


@pytest.mark.usefixtures("no_leaks")
async def test_a_cancelled_callback_task_is_reported_and_ends_the_subscription(url: str) -> None:
    recorder = Recorder()
    connection = await aio.connect(url, on_event=recorder)
    subscription = await connection.subscribe("a", callback=lambda message: None)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("jetspark subscription")]
    task.cancel()
    event = await recorder.wait(ErrorOccurred)
    assert isinstance(event.error, SubscriptionClosedError)
    assert subscription.closed
    await connection.close()


async def test_events_come_in_order_from_a_separate_task_and_a_slow_handler_blocks_nothing(
    front: Front, url: str
) -> None:
    seen: list[str] = []
    release = threading.Event()

    def handler(event: Event) -> None:
        seen.append(type(event).__name__)
        if front.name == "sync":
            release.wait(5)  # a blocking handler; on asyncio it would block the loop, so it does not block there
        raise RuntimeError("the handler's own fault")

    connection = await front.connect(url, on_event=handler)
    await front.answer(connection, "echo", lambda payload: payload)
    assert (await connection.request("echo", b"1")).payload == b"1"
    release.set()
    await connection.close()
    await eventually(lambda: seen == ["Connected", "Disconnected", "Closed"])


async def test_the_connection_can_be_closed_from_a_callback_and_from_a_handler(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    if front.name == "aio":
        await connection.subscribe("end", callback=lambda message: connection.close())
    else:
        blocking = cast("Any", connection).inner
        await connection.subscribe("end", callback=lambda message: blocking.close())
    await connection.publish("end")
    await recorder.wait(Closed)


@pytest.mark.usefixtures("no_leaks")
async def test_closing_leaves_no_reference_cycle(url: str) -> None:
    gc.collect()
    gc.disable()
    connection = await aio.connect(url)
    subscription = await connection.subscribe("a")
    await connection.subscribe("b", callback=lambda message: None)
    await connection.publish("a", b"x")
    message = await subscription.next_msg(5)
    with pytest.raises(ConnectionError):
        await connection.request("nobody", own_inbox=True)
    with pytest.raises(ConnectionError):
        await connection.request("nobody")
    await connection.publish("a", b"not taken")
    await connection.flush()
    await connection.close()
    parts = (connection, connection._core, connection._core.client, subscription, subscription._core)
    gone: list[weakref.ref[object]] = [weakref.ref(each) for each in parts]
    del parts
    try:
        del connection, subscription, message
        await eventually(lambda: not any(ref() is not None for ref in gone), what="the end of every object")
    finally:
        gc.enable()


@pytest.mark.usefixtures("no_leaks")
async def test_a_connection_used_from_another_event_loop_raises_at_once(url: str) -> None:
    connection = await aio.connect(url)
    subscription = await connection.subscribe("a")

    async def use() -> None:
        for call in (
            lambda: connection.publish("a"),
            lambda: connection.flush(),
            lambda: connection.request("a"),
            lambda: connection.subscribe("b"),
            lambda: connection.drain(),
            lambda: connection.close(),
            lambda: subscription.next_msg(1),
            lambda: subscription.unsubscribe(),
        ):
            with pytest.raises(WrongEventLoopError, match="event loop"):
                await call()

    await asyncio.to_thread(asyncio.run, use())
    await connection.flush()
    await connection.close()


@pytest.mark.usefixtures("no_leaks")
async def test_the_blocking_connection_can_be_used_from_many_threads(url: str) -> None:
    with await asyncio.to_thread(sync.connect, url) as connection:
        subscription = connection.subscribe("many")

        def send(thread: int) -> None:
            for number in range(500):
                connection.publish("many", b"%d %d" % (thread, number))
            connection.flush()

        await asyncio.gather(*(asyncio.to_thread(send, thread) for thread in range(4)))
        got = [subscription.next_msg(5).payload.split() for _ in range(2000)]
        for thread in range(4):
            assert [int(number) for sender, number in got if int(sender) == thread] == list(range(500))


@pytest.mark.usefixtures("no_leaks")
async def test_closing_ends_the_calls_of_other_threads(url: str) -> None:
    for _ in range(20):
        connection = await asyncio.to_thread(sync.connect, url)
        silent = await asyncio.to_thread(connection.subscribe, "silent")

        def work(connection: sync.Connection = connection, silent: sync.Subscription = silent) -> None:
            with contextlib.suppress(ConnectionClosedError, SubscriptionClosedError):
                while True:
                    connection.publish("busy", b"x")
                    connection.flush()
                    with contextlib.suppress(NoMessageError):
                        silent.next_msg(0)

        def wait(silent: sync.Subscription = silent) -> None:
            assert list(silent) == []

        threads = [asyncio.to_thread(work), asyncio.to_thread(work), asyncio.to_thread(wait)]
        working = asyncio.gather(*threads)
        await asyncio.sleep(0.01)
        await asyncio.to_thread(connection.close)
        await asyncio.wait_for(working, 10)


def replace_queue(subscription: sync.Subscription, items: deque[Message]) -> None:
    subscription._sub.pending = items
    queue = subscription._core._queue
    queue._items, queue._popleft = items, items.popleft


@pytest.mark.usefixtures("no_leaks")
async def test_a_message_that_is_dropped_while_a_thread_takes_it_is_not_delivered(url: str) -> None:
    cleared = threading.Event()

    class Overtaken(deque[Message]):
        """When a thread takes a message, another thread ends the subscription at that moment."""

        def popleft(self) -> Message:
            if self:
                ending.start()
                assert cleared.wait(10)
            return super().popleft()

        def clear(self) -> None:
            super().clear()
            cleared.set()

    with await asyncio.to_thread(sync.connect, url) as connection:
        subscription = connection.subscribe("a")
        ending = threading.Thread(target=subscription.unsubscribe)
        connection.publish("a")
        connection.flush()
        replace_queue(subscription, Overtaken(subscription._sub.pending))
        with pytest.raises(SubscriptionClosedError):
            await asyncio.to_thread(subscription.next_msg, 10)
        ending.join(10)


@pytest.mark.usefixtures("no_leaks")
async def test_the_last_message_is_delivered_if_it_arrives_with_the_end_after_a_check(url: str) -> None:
    looks = 0

    class Late(deque[Message]):
        """After the second check that finds nothing, the message arrives together with the end."""

        def __len__(self) -> int:
            size = super().__len__()
            self._looked(size > 0)
            return size

        def popleft(self) -> Message:
            try:
                return super().popleft()
            except IndexError:
                self._looked(found=False)
                raise

        def _looked(self, found: bool) -> None:
            nonlocal looks
            looks += 1
            if not found and looks == 2:
                connection.publish("a", b"last")
                deadline = time.monotonic() + TEST_TIMEOUT
                while not subscription.closed:
                    assert time.monotonic() < deadline, "the end did not come"
                    time.sleep(0.001)

    with await asyncio.to_thread(sync.connect, url) as connection:
        subscription = connection.subscribe("a", max_msgs=1)
        replace_queue(subscription, Late())
        assert (await asyncio.to_thread(subscription.next_msg, 10)).payload == b"last"
        with pytest.raises(SubscriptionClosedError):
            await asyncio.to_thread(subscription.next_msg, 10)


@pytest.mark.usefixtures("no_leaks")
async def test_a_blocking_connection_drains_while_another_thread_adds_subscriptions(url: str) -> None:
    grown = False

    class Growing(weakref.WeakSet[Any]):
        """Another thread registers an entry during an iteration."""

        def __iter__(self) -> Iterator[Any]:
            nonlocal grown
            for each in super().__iter__():
                if not grown:
                    grown = True
                    thread = threading.Thread(target=connection._core.register_reader, args=(later._core,))
                    thread.start()
                    thread.join()
                yield each

    connection = await asyncio.to_thread(sync.connect, url)
    first = await asyncio.to_thread(connection.subscribe, "a")
    later = await asyncio.to_thread(connection.subscribe, "b")
    connection._core._readers = Growing([first._core])
    await asyncio.to_thread(connection.drain)
    assert connection.closed
    assert first.closed
    assert later.closed
    assert grown


@pytest.mark.usefixtures("no_leaks")
async def test_a_blocking_connection_also_drains_a_subscription_that_another_thread_adds_at_that_moment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await asyncio.to_thread(sync.connect, url)
    call = connection._core.call
    later: list[sync.Subscription] = []
    started = threading.Event()

    def subscribe() -> None:
        later.append(connection.subscribe("b"))
        connection.publish("b", b"kept")
        connection.flush()

    def call_later(coroutine: Coroutine[Any, Any, object]) -> object:
        if not started.is_set():
            started.set()
            thread = threading.Thread(target=subscribe)
            thread.start()
            thread.join()
        return call(coroutine)

    monkeypatch.setattr(connection._core, "call", call_later)
    draining = asyncio.create_task(asyncio.to_thread(connection.drain, TEST_TIMEOUT))
    await eventually(lambda: later and later[0].closed)
    assert (await asyncio.to_thread(later[0].next_msg, TEST_TIMEOUT)).payload == b"kept"
    await draining


def test_a_blocking_connection_reports_a_fork(url: str) -> None:
    script = f"""
import os, warnings
warnings.simplefilter("ignore")
from jetspark import sync, errors
connection = sync.connect({url!r})
child = os.fork()
if child == 0:
    try:
        connection.flush()
    except errors.WrongEventLoopError:
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
connection.flush()
connection.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_both_fronts_offer_the_same_names_and_parameters() -> None:
    """The blocking front forwards calls to the asyncio one. This test fails if only one of them is changed."""
    shown = {"status", "connected", "closed", "address", "buffered"}
    inner = set(vars(AioCore)) | set(vars(SyncCore))
    inner -= shown
    inner |= {"wake", "emptied", "join"}  # of subscriptions
    for ours, theirs in ((aio.Connection, sync.Connection), (aio.Subscription, sync.Subscription), (aio.Msg, sync.Msg)):
        kept = {"unsubscribe"} if ours is aio.Subscription else set()
        names = {name for name in dir(ours) if not name.startswith("_")} - (inner - kept)
        assert names == {name for name in dir(theirs) if not name.startswith("_")} - (inner - kept)
        for name in names:
            one, other = getattr(ours, name), getattr(theirs, name)
            if inspect.isfunction(one) and inspect.isfunction(other):
                parameters = [
                    [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]
                    for function in (one, other)
                ]
                assert parameters[0] == parameters[1], name
                assert (inspect.getdoc(one) or "").replace("task of its own", "thread of its own") == inspect.getdoc(
                    other
                ), name
    assert list(inspect.signature(aio.connect).parameters) == list(inspect.signature(sync.connect).parameters)


def test_the_package_offers_both_and_imports_neither() -> None:
    script = (
        "import sys, jetspark; before = set(sys.modules); jetspark.connect; jetspark.sync.connect; jetspark.events;"
        "assert 'jetspark.aio' not in before; assert 'numpy' not in sys.modules; assert 'pyarrow' not in sys.modules;"
        "import jetspark.bulk; assert 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert jetspark.connect is aio.connect
    assert "connect" in dir(jetspark)
    with pytest.raises(AttributeError):
        jetspark.nothing  # noqa: B018


async def test_closed_errors_include_the_reason(front: Front, url: str) -> None:
    connection = await front.connect(url)
    await connection.close()
    with pytest.raises(ConnectionClosedError, match="the connection is closed"):
        await connection.publish("a")
