"""Callbacks of the blocking front run in their own thread, one after the other."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from jetspark import sync
from jetspark.errors import ConnectionClosedError
from jetspark.server import NatsServer
from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX, CallbackThread
from jetspark.sync.loop_proxy import blocking_iterator


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False) as server:
        yield server


@pytest.fixture
def connection(server: NatsServer) -> Iterator[sync.Connection]:
    with sync.connect(server.url) as connection:
        yield connection


def callback_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(CALLBACK_THREAD_PREFIX)]


def wait_until_gone() -> None:
    deadline = time.monotonic() + 10
    while callback_threads():
        assert time.monotonic() < deadline, callback_threads()
        gc.collect()
        time.sleep(0.005)


def test_calls_come_in_order_on_one_thread_which_can_call_the_connection(connection: sync.Connection) -> None:
    seen: list[tuple[int, str]] = []

    def callback(number: int) -> None:
        connection.flush()
        seen.append((number, threading.current_thread().name))

    threaded = connection._core.in_callback_thread(callback)

    async def call() -> None:
        for number in range(5):
            await threaded(number)

    connection._core.call(call())
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
    (name,) = {name for _, name in seen}
    assert name.startswith(CALLBACK_THREAD_PREFIX)


@pytest.mark.parametrize("raised", [ValueError("mine"), StopIteration(), SystemExit()])
def test_an_exception_of_a_callback_is_raised_to_its_awaiter(
    connection: sync.Connection, raised: BaseException
) -> None:
    def callback() -> None:
        raise raised

    threaded = connection._core.in_callback_thread(callback)
    kind = ValueError if isinstance(raised, ValueError) else RuntimeError
    for _ in range(2):  # the thread continues
        with pytest.raises(kind):
            connection._core.call(threaded())


def test_a_thread_ends_when_its_callback_is_garbage_collected(connection: sync.Connection) -> None:
    wait_until_gone()  # those of other tests
    threaded = connection._core.in_callback_thread(lambda: None)
    connection._core.call(threaded())
    assert len(callback_threads()) == 1
    del threaded
    wait_until_gone()


def test_a_thread_ends_with_the_connection(server: NatsServer) -> None:
    connection = sync.connect(server.url)
    threaded = connection._core.in_callback_thread(connection.close)  # may be called from a callback
    with suppress(ConnectionClosedError):  # the close, in another thread, may come before the answer to this call
        connection._core.call(threaded())
    wait_until_gone()
    with pytest.raises(ConnectionClosedError):
        connection._core.call(threaded())


async def test_a_cancelled_wait_does_not_stop_the_callback() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def callback() -> None:
        begun.set()
        go.wait(5)
        ended.set()

    threaded = CallbackThread(callback)
    waiting = asyncio.create_task(threaded())
    await asyncio.to_thread(begun.wait, 5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await asyncio.to_thread(ended.wait, 5)
    await threaded()
    threaded.stop(5)


def test_an_iteration_is_moved_to_another_thread_and_closes_its_source(connection: sync.Connection) -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
        finally:
            closed.set()

    assert list(blocking_iterator(connection._core, numbers(), str)) == ["0", "1", "2"]
    closed.clear()
    for number in blocking_iterator(connection._core, numbers(), lambda each: each):
        assert number == 0
        break
    gc.collect()
    assert closed.wait(5)
