"""Loss and return of a connection, on both fronts and a real server: killed, stopped, cut off, restarted."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import pytest
from tests.connection.support import Front, Proxy, Recorder, eventually

from jetspark.errors import (
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    NoServersError,
    OutboundBufferLimitError,
    StaleConnectionError,
)
from jetspark.server import NatsServer
from jetspark.wire.events import Closed, Disconnected, ErrorOccurred, LameDuck, Reconnected


@pytest.mark.conformance("REC-01")
async def test_subscriptions_continue_after_a_killed_server_is_restarted(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder)
    subscription = await connection.subscribe("go.on")
    for number in range(100):
        await connection.publish("go.on", b"%d" % number)
    await connection.flush()
    await asyncio.to_thread(server.kill)
    await recorder.wait(Disconnected)
    for number in range(100, 200):
        await connection.publish("go.on", b"%d" % number)
    await recorder.wait(ErrorOccurred)  # each failed attempt is reported
    await asyncio.to_thread(server.start)
    await recorder.wait(Reconnected)
    for number in range(200, 300):
        await connection.publish("go.on", b"%d" % number)
    got = [int((await subscription.next_msg(5)).payload) for _ in range(300)]
    assert got == list(range(300))
    states = [name for name in recorder.names if name != "ErrorOccurred"]
    assert states == ["Connected", "Disconnected", "Reconnected"]


@pytest.mark.blocking
async def test_reconnect_opens_another_session_and_subscriptions_continue(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    subscription = await connection.subscribe("again")
    first = connection.server_info.client_id
    await connection.publish("again", b"before")
    await connection.flush()
    await connection.reconnect(timeout=20)
    assert connection.server_info.client_id != first
    await connection.publish("again", b"after")
    assert [(await subscription.next_msg(5)).payload for _ in range(2)] == [b"before", b"after"]
    await recorder.wait(Reconnected)
    assert recorder.names == ["Connected", "Disconnected", "Reconnected"]
    await connection.close()
    with pytest.raises(ConnectionClosedError):
        await connection.reconnect()


@pytest.mark.conformance("REC-01")
async def test_a_stopped_server_is_considered_dead_after_two_pings(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder, ping_interval=0.5)
    subscription = await connection.subscribe("alive")
    await connection.flush()
    begin = time.monotonic()
    server.pause()
    event = await recorder.wait(Disconnected)
    assert isinstance(event.error, StaleConnectionError)
    assert 0.75 < time.monotonic() - begin < 20  # 240 without the option
    await connection.publish("alive", b"kept")
    server.resume()
    await recorder.wait(Reconnected)
    assert (await subscription.next_msg(5)).payload == b"kept"


async def test_pings_do_not_close_a_living_server(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder, ping_interval=0.5)
    await asyncio.sleep(1.8)  # longer than the time after which a silent server is given up
    assert connection.connected
    assert recorder.names == ["Connected"]


@pytest.mark.conformance("REC-02")
async def test_subscriptions_are_restored_before_buffered_publishes(front: Front, shared_server: NatsServer) -> None:
    recorder = Recorder()
    async with Proxy(shared_server.port) as proxy:
        connection = await front.connect(proxy.url, on_event=recorder)
        ended = await connection.subscribe("ended")
        subscriptions = [await connection.subscribe(f"restored.{number}", queue="q") for number in range(3)]
        few = await connection.subscribe("few")
        await few.unsubscribe(5)
        await connection.publish("few")
        await few.next_msg(5)
        await ended.unsubscribe()
        await connection.flush()
        proxy.open = False
        proxy.cut()
        await recorder.wait(Disconnected)
        later = await connection.subscribe("restored.later")
        for number in range(3):
            await connection.publish(f"restored.{number}", b"kept")
        await connection.publish("restored.later", b"kept")
        for _ in range(10):
            await connection.publish("few")
        proxy.said.clear()
        proxy.open = True
        await recorder.wait(Reconnected)
        for subscription in (*subscriptions, later):
            assert (await subscription.next_msg(5)).payload == b"kept"
        assert len([message async for message in few]) == 4
        await connection.flush()
        said = bytes(proxy.said)
        assert said.rindex(b"SUB restored.later") < said.index(b"PUB restored.0")
        assert said.count(b"SUB restored.") == 4
        assert b"SUB ended" not in said
        await front.close()


@pytest.mark.conformance("REC-02")
@pytest.mark.blocking
async def test_publishes_without_a_session_are_buffered_up_to_a_limit(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder, reconnect_buffer_size=10_000)
    subscription = await connection.subscribe("kept")
    await connection.flush()
    await asyncio.to_thread(server.kill)
    await recorder.wait(Disconnected)
    kept = 0
    while connection.buffered < 9_900:
        await connection.publish("kept", bytes(100))
        kept += 1
    with pytest.raises(OutboundBufferLimitError, match="reconnect_buffer_size is 10000"):
        await connection.publish("kept", bytes(100))
    assert kept > 80
    assert connection.buffered <= 10_000
    await asyncio.to_thread(server.start)
    await recorder.wait(Reconnected)
    await connection.flush()
    await eventually(lambda: subscription.received == kept)


async def test_the_first_retry_is_immediate(front: Front, shared_server: NatsServer) -> None:
    recorder = Recorder()
    async with Proxy(shared_server.port) as proxy:
        await front.connect(proxy.url, on_event=recorder, reconnect_wait=60)
        begin = time.monotonic()
        proxy.cut()
        await recorder.wait(Reconnected)
        assert time.monotonic() - begin < 20
        await front.close()


async def test_requests_in_flight_fail_at_once_when_the_session_is_lost(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    async with Proxy(server.port) as proxy:
        connection = await front.connect(proxy.url, on_event=recorder)
        silent = await connection.subscribe("silent")
        requests = [
            asyncio.create_task(connection.request("silent", timeout=20, own_inbox=own)) for own in (False, True)
        ]
        await eventually(lambda: silent.received == 2)
        server.pause()
        pings = proxy.said.count(b"PING")
        flush = asyncio.create_task(connection.flush(20))
        await eventually(lambda: proxy.said.count(b"PING") > pings)
        proxy.cut()
        with pytest.raises(DisconnectedError):
            await requests[0]
        with pytest.raises(DisconnectedError):
            await flush
        server.resume()
        await recorder.wait(Reconnected)
        # The own inbox is a subscription like any other, so its answer may still arrive.
        request = await silent.next_msg(5), await silent.next_msg(5)
        for message in request:
            await connection.publish(message.reply, b"answer")
        assert (await requests[1]).payload == b"answer"
        await front.close()


async def test_a_flush_without_a_session_waits_for_the_next_one(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder)
    await asyncio.to_thread(server.kill)
    await recorder.wait(Disconnected)
    await connection.publish("kept")
    flush = asyncio.create_task(connection.flush(20))
    await asyncio.to_thread(server.start)
    await flush
    assert connection.connected


async def test_r54_servers_killed_during_flushes_leave_a_living_connection(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder)
    subscription = await connection.subscribe("alive")
    stop = False

    async def work() -> int:
        confirmed = 0
        while not stop:
            with contextlib.suppress(DisconnectedError, OutboundBufferLimitError):
                await connection.publish("work", bytes(1000))
                await connection.flush(20)
                confirmed += 1
        return confirmed

    working = asyncio.create_task(work())
    for number in range(4):
        await asyncio.to_thread(server.kill)
        await recorder.wait(Disconnected, number + 1)
        await asyncio.to_thread(server.start)
        await recorder.wait(Reconnected, number + 1)
    stop = True
    assert await asyncio.wait_for(working, 20) > 0
    await connection.publish("alive", b"yes")
    assert (await subscription.next_msg(5)).payload == b"yes"


async def test_a_proxy_that_cuts_at_random_bytes_corrupts_nothing(front: Front, shared_server: NatsServer) -> None:
    rng = random.Random(7)
    sender = await front.connect(shared_server.url)
    async with Proxy(shared_server.port) as proxy:
        proxy.budget = lambda: rng.randrange(1, 20_000)
        receiver = await front.connect(proxy.url, retry_connect=True, reconnect_wait=0.001, reconnect_wait_max=0.001)
        subscription = await receiver.subscribe("numbers")
        sent = 0
        while proxy.sessions < 40:
            for _ in range(50):
                await sender.publish("numbers", b"%d" % sent * (1 + sent % 40), headers={"N": str(sent)})
                sent += 1
            await sender.flush()
        proxy.budget = lambda: None
        proxy.cut()
        with contextlib.suppress(DisconnectedError):
            await receiver.flush()
        await receiver.flush()
        await sender.publish("numbers", b"end", headers={"N": str(sent)})
        got = []
        while (message := await subscription.next_msg(10)).payload != b"end":
            number = int(message.headers["N"])
            assert message.payload == b"%d" % number * (1 + number % 40)
            got.append(number)
        assert got == sorted(set(got)), "in order and none twice"
        assert 0 < len(got) <= sent
        assert subscription.dropped == 0
        await front.close()


async def test_a_confirmed_publish_arrived_despite_any_cut(front: Front, shared_server: NatsServer) -> None:
    rng = random.Random(11)
    receiver = await front.connect(shared_server.url)
    subscription = await receiver.subscribe("confirmed")
    await receiver.flush()
    async with Proxy(shared_server.port) as proxy:
        proxy.budget = lambda: rng.randrange(700, 1300)  # the handshake takes more than 800
        sender = await front.connect(proxy.url, retry_connect=True, reconnect_wait=0.001, reconnect_wait_max=0.001)
        confirmed = set()
        for number in range(1500):
            try:
                await sender.publish("confirmed", b"%d" % number)
                await sender.flush(10)
                confirmed.add(number)
            except DisconnectedError:
                continue
        assert proxy.sessions > 10
        await receiver.flush()
        arrived = {int((await subscription.next_msg(5)).payload) for _ in range(subscription.pending[0])}
        await front.close()
    assert len(confirmed) > 1000
    assert confirmed <= arrived


async def test_lame_duck_mode_is_reported(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    await front.connect(server.url, on_event=recorder)
    lame = asyncio.create_task(asyncio.to_thread(server.lame_duck))
    await recorder.wait(LameDuck)
    await lame


async def test_without_reconnect_a_lost_session_closes_the_connection(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder, reconnect=False)
    subscription = await connection.subscribe("a")
    await asyncio.to_thread(server.kill)
    event = await recorder.wait(Closed)
    assert isinstance(event.error, DisconnectedError)
    assert recorder.names == ["Connected", "Disconnected", "Closed"]
    with pytest.raises(ConnectionClosedError, match="the connection is closed: nats://127"):
        await connection.publish("a")
    with pytest.raises(ConnectionClosedError):
        await subscription.next_msg(5)


async def test_the_connection_closes_with_its_reason_if_no_server_is_left(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder, max_reconnects=3, reconnect_wait=0.01)
    flush_fails = asyncio.create_task(connection.flush(20))
    await flush_fails
    await asyncio.to_thread(server.kill)
    event = await recorder.wait(Closed)
    assert isinstance(event.error, NoServersError)
    assert len(recorder.of(ErrorOccurred)) == 3
    with pytest.raises(ConnectionClosedError, match="no server is left"):
        await connection.flush()


async def test_connect_fails_fast_and_names_the_server(front: Front, server: NatsServer) -> None:
    url, port = server.url, server.port
    await asyncio.to_thread(server.stop)
    with pytest.raises(ConnectError, match=str(port)):
        await front.connect(url)
    with pytest.raises(NoServersError) as caught:
        await front.connect([url, f"nats://127.0.0.1:{port}/"])
    assert str(caught.value).count(str(port)) >= 2


@pytest.mark.blocking
async def test_connect_tries_the_next_server(front: Front, url: str) -> None:
    connection = await front.connect(["nats://127.0.0.1:1", url], randomize=False)
    assert connection.connected
    assert connection.servers[0].port == 1


async def test_connect_retries_on_request(front: Front, server: NatsServer) -> None:
    url = server.url
    await asyncio.to_thread(server.stop)
    connecting = asyncio.create_task(front.connect(url, retry_connect=True, reconnect_wait=0.02))
    await asyncio.sleep(0.2)
    assert not connecting.done()
    await asyncio.to_thread(server.start)
    connection = await asyncio.wait_for(connecting, 10)
    await connection.flush()


async def test_a_reconnect_can_be_interrupted_by_close(front: Front, server: NatsServer) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder, reconnect_wait=30, reconnect_wait_max=30)
    flush = asyncio.create_task(connection.flush(20))
    await flush
    await asyncio.to_thread(server.kill)
    await recorder.wait(ErrorOccurred)
    waiting = asyncio.create_task(connection.flush(20))
    await asyncio.sleep(0.05)
    begin = time.monotonic()
    await connection.close()
    assert time.monotonic() - begin < 10
    with pytest.raises(Error):
        await waiting
    await recorder.wait(Closed)
