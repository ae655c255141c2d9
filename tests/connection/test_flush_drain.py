"""Flush, drain and the limits of pending messages, on both fronts."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.connection.support import Front, Recorder, eventually

from jetspark.errors import ConnectionClosedError, DrainTimeoutError, FlushTimeoutError
from jetspark.server import NatsServer
from jetspark.wire.events import Closed, SlowConsumer
from jetspark.wire.messages import Message

pytestmark = pytest.mark.blocking  # close and drain of the blocking connection are handwritten


async def test_after_a_flush_the_server_has_everything(front: Front, url: str) -> None:
    sender, receiver = await front.connect(url), await front.connect(url)
    subscription = await receiver.subscribe("flushed")
    await receiver.flush()
    for _ in range(5000):
        await sender.publish("flushed", b"x")
    await sender.flush()
    await receiver.flush()  # the answer of the server comes after its earlier messages for us
    assert subscription.received == 5000


async def test_r25_a_flush_to_a_silent_server_times_out_and_never_succeeds(front: Front, server: NatsServer) -> None:
    connection = await front.connect(server.url)
    server.pause()
    with pytest.raises(FlushTimeoutError):
        await connection.flush(0.2)
    server.resume()
    await connection.flush()


async def test_r44_draining_a_subscription_loses_nothing(front: Front, url: str) -> None:
    sender, receiver = await front.connect(url), await front.connect(url)
    subscription = await receiver.subscribe("drained")
    await receiver.flush()
    for _ in range(5_000):
        await sender.publish("drained", b"x" * 64)
    await sender.flush()
    draining = asyncio.create_task(subscription.drain(20))
    got = [message async for message in subscription]
    await draining
    assert len(got) == 5_000
    assert subscription.closed


async def test_r44_draining_a_connection_waits_for_the_last_callback(front: Front, url: str) -> None:
    sender, receiver = await front.connect(url), await front.connect(url)
    done = 0
    lock = threading.Lock()

    def callback(message: Message) -> None:
        nonlocal done
        with lock:
            done += 1

    await receiver.subscribe("drained", callback=callback)
    await receiver.flush()
    for _ in range(5_000):
        await sender.publish("drained", b"x" * 64)
    await sender.flush()
    await receiver.drain(20)
    assert done == 5_000
    assert receiver.closed


async def test_messages_published_by_callbacks_during_a_drain_are_sent(front: Front, url: str) -> None:
    client, server = await front.connect(url), await front.connect(url)
    answers = await client.subscribe("answers")
    await client.flush()
    await front.answer(server, "ask", lambda payload: payload)
    for _ in range(100):
        await client.publish("ask", b"1", reply="answers")
    await client.flush()
    await server.drain()
    await client.flush()
    await eventually(lambda: answers.received == 100)


async def test_a_drain_that_times_out_raises_and_closes(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    subscription = await connection.subscribe("stuck")
    await connection.publish("stuck")
    await connection.flush()
    await eventually(lambda: subscription.received == 1)
    with pytest.raises(DrainTimeoutError, match="1 messages"):
        await connection.drain(0.1)
    assert connection.closed
    await recorder.wait(Closed)


async def test_a_subscription_whose_drain_times_out_drops_the_rest(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("stuck")
    await connection.publish("stuck")
    await connection.flush()
    await eventually(lambda: subscription.received == 1)
    with pytest.raises(DrainTimeoutError) as caught:
        await subscription.drain(0.1)
    assert isinstance(caught.value, TimeoutError)
    assert subscription.pending == (0, 0)
    await connection.flush()


async def test_a_draining_connection_refuses_new_subscriptions(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("slow")
    await connection.publish("slow")
    await eventually(lambda: subscription.received == 1)
    draining = asyncio.create_task(connection.drain(5))
    await eventually(lambda: subscription.closed)
    with pytest.raises(ConnectionClosedError):
        await connection.subscribe("another")
    await subscription.next_msg(5)
    await draining


async def test_a_full_subscription_drops_messages_and_reports_it_once(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    subscription = await connection.subscribe("full", pending_msgs_limit=10)
    for _ in range(100):
        await connection.publish("full", b"x")
    await connection.flush()
    event = await recorder.wait(SlowConsumer)
    assert event.subject == "full"
    assert event.error.dropped == 1
    assert (subscription.pending[0], subscription.dropped) == (10, 90)
    for _ in range(10):
        await subscription.next_msg(5)
    for _ in range(100):
        await connection.publish("full", b"x")
    await connection.flush()
    await recorder.wait(SlowConsumer, 2)
    await connection.flush()
    assert len(recorder.of(SlowConsumer)) == 2


async def test_the_byte_limit_drops_messages_too(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("full", pending_bytes_limit=1000)
    for _ in range(10):
        await connection.publish("full", bytes(400))
    await connection.flush()
    assert subscription.pending == (3, 1200)
    assert subscription.dropped == 7
    for _ in range(3):
        await subscription.next_msg(5)
    assert subscription.pending == (0, 0)


async def test_r43_a_subscription_that_pauses_loses_nothing(front: Front, url: str) -> None:
    sender, receiver = await front.connect(url), await front.connect(url, ping_interval=0.3)
    subscription = await receiver.subscribe("all", pending_msgs_limit=100, overflow="pause")
    await receiver.flush()

    async def send() -> None:
        for number in range(5_000):
            await sender.publish("all", b"%0100d" % number)
        await sender.flush()

    sending = asyncio.create_task(send())
    await eventually(lambda: subscription.pending[0] >= 100)
    await asyncio.sleep(1.3)  # several pings: a pause of reading does not count as a dead server
    got = [int((await subscription.next_msg(10)).payload) for _ in range(5_000)]
    await sending
    assert got == list(range(5_000))
    assert subscription.dropped == 0
    assert receiver.connected
    await receiver.flush()
