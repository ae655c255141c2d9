"""An operation that is cancelled at any await raises CancelledError, and the connection works as before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import pytest

from jetspark import aio
from jetspark.errors import NoMessageError
from jetspark.server import NatsServer

pytestmark = pytest.mark.usefixtures("no_leaks")


class CancelledAt:
    """Awaits a coroutine and cancels the task at its n-th suspension."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], step: int) -> None:
        self.reached = False
        self._coroutine = coroutine
        self._step = step

    def __await__(self) -> Generator[Any, Any, object]:
        step = 0
        send: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731
        while True:
            try:
                waiting = send()
            except StopIteration as done:
                return done.value
            if step == self._step:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            step += 1
            try:
                value = yield waiting
            except BaseException as error:  # noqa: BLE001 - passed on
                send = _thrower(self._coroutine, error)
            else:
                send = _sender(self._coroutine, value)


def _sender(coroutine: Coroutine[Any, Any, object], value: object) -> Callable[[], Any]:
    return lambda: coroutine.send(value)


def _thrower(coroutine: Coroutine[Any, Any, object], error: BaseException) -> Callable[[], Any]:
    return lambda: coroutine.throw(error)


async def _cancel_everywhere(
    operation: Callable[[], Coroutine[Any, Any, object]], after: Callable[[], Awaitable[None]]
) -> int:
    """Run the operation repeatedly, cancelled one await later each time; return how many awaits it has."""
    for step in range(100):
        cancelled = CancelledAt(operation(), step)

        async def run(cancelled: CancelledAt = cancelled) -> object:
            return await cancelled

        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=10)
        assert task.done(), f"hangs when cancelled at await {step}"
        if cancelled.reached:
            assert task.cancelled(), f"cancelled at await {step} it ended with {task!r}"
        else:
            task.result()
        await after()
        if not cancelled.reached:
            return step
    raise AssertionError("no end")


async def _usable(connection: aio.Connection) -> None:
    async with await connection.subscribe("usable") as subscription:
        await connection.publish("usable", b"yes")
        assert (await subscription.next_msg(5)).payload == b"yes"
    await connection.flush(5)
    assert (await connection.request("echo", b"1")).payload == b"1"


async def _echo(connection: aio.Connection) -> None:
    async def answer(message: aio.Msg) -> None:
        await message.respond(message.payload)

    await connection.subscribe("echo", callback=answer)


@pytest.mark.parametrize(
    "operation", ["publish", "publish much", "flush", "request", "own inbox", "subscribe", "drain"]
)
async def test_r25_every_operation_can_be_cancelled_at_every_await(url: str, operation: str) -> None:
    connection = await aio.connect(url)
    await _echo(connection)

    async def much() -> None:
        for _ in range(20):
            await connection.publish("much", bytes(200_000))

    async def drain() -> None:
        subscription = await connection.subscribe("drained")
        await subscription.drain()

    operations: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "publish": lambda: connection.publish("one", b"x"),
        "publish much": much,
        "flush": lambda: connection.flush(5),
        "request": lambda: connection.request("echo", b"x"),
        "own inbox": lambda: connection.request("echo", b"x", own_inbox=True),
        "subscribe": lambda: connection.subscribe("some"),
        "drain": drain,
    }
    await _cancel_everywhere(operations[operation], lambda: _usable(connection))
    await connection.close()


async def test_r24_a_cancelled_wait_loses_no_message(url: str) -> None:
    connection = await aio.connect(url)
    subscription = await connection.subscribe("numbers")
    got: list[int] = []

    async def take() -> None:
        got.append(int((await subscription.next_msg(0.5)).payload))

    async def send() -> None:
        for number in range(200):
            await connection.publish("numbers", b"%d" % number)
            await asyncio.sleep(0.001)

    sending = asyncio.create_task(send())
    while len(got) < 200:
        task = asyncio.create_task(take())
        await asyncio.sleep(0.0015)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, NoMessageError):
            await task
    await sending
    assert got == list(range(200))
    await connection.close()


async def test_a_cancelled_reader_passes_its_message_to_the_next(url: str) -> None:
    connection = await aio.connect(url)
    subscription = await connection.subscribe("turn")
    first, second = asyncio.create_task(subscription.next_msg()), asyncio.create_task(subscription.next_msg())
    await connection.publish("turn", b"x")
    while not subscription.pending[0]:  # noqa: ASYNC110 - the very turn in which it came matters
        await asyncio.sleep(0)
    first.cancel()
    assert (await asyncio.wait_for(second, 5)).payload == b"x"
    assert first.cancelled()
    await connection.close()


async def test_a_cancelled_connect_leaves_nothing_open(url: str) -> None:
    async def connect() -> None:
        await (await aio.connect(url)).close()

    async def nothing() -> None:
        await asyncio.sleep(0)

    assert await _cancel_everywhere(connect, nothing) > 1


@pytest.mark.parametrize("how", ["close", "drain"])
async def test_a_cancelled_close_or_drain_still_closes(url: str, how: str) -> None:
    opened: list[aio.Connection] = []

    async def operation() -> None:
        await (opened[-1].close() if how == "close" else opened[-1].drain())

    async def renew() -> None:
        if opened:
            await opened[-1].close()
            assert opened[-1].closed
        connection = await aio.connect(url)
        await _echo(connection)
        opened.append(connection)

    await renew()
    await _cancel_everywhere(operation, renew)
    await opened[-1].close()


async def test_r25_a_cancelled_flush_on_a_dead_connection_is_not_confirmed(server: NatsServer) -> None:
    connection = await aio.connect(server.url)
    server.pause()
    task = asyncio.create_task(connection.flush(30))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connection.flush(30), 0.05)
    server.resume()
    await _echo(connection)
    await _usable(connection)
    await connection.close()
