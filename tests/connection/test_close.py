"""Close of a connection: published messages arrive, whatever the server does, and nothing stays open."""

from __future__ import annotations

import asyncio

import pytest
from tests.connection.certificates import Certificates
from tests.connection.support import TEST_TIMEOUT, Front, Proxy, eventually

from jetspark import aio
from jetspark.aio.core import FLUSH_THRESHOLD
from jetspark.aio.transport import SessionProtocol
from jetspark.errors import DrainTimeoutError
from jetspark.server import NatsServer
from jetspark.wire.options import TLSOptions

pytestmark = pytest.mark.blocking  # close and drain of the blocking connection are handwritten


@pytest.fixture(autouse=True)
def long_close_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that waits for the server until its timeout takes longer than any test."""
    monkeypatch.setattr("jetspark.aio.core._CLOSE_TIMEOUT", 10 * TEST_TIMEOUT)


def _link(connection: aio.Connection) -> SessionProtocol:
    link = connection._core._supervisor.session
    assert link is not None
    return link


async def _pass_one(subject: str, sender: aio.Connection, proxy: Proxy) -> None:
    passed = proxy.passed
    await sender.publish(subject, b"x")
    await eventually(lambda: proxy.passed > passed)


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_close_sends_everything_published_before_although_the_server_keeps_sending(
    front: Front, certificates: Certificates, scheme: str
) -> None:
    config, tls = (certificates.config(), TLSOptions(ca_file=certificates.ca)) if scheme == "tls" else (None, None)
    with NatsServer(jetstream=False, config=config) as server:
        receiver = await front.connect(f"{scheme}://localhost:{server.port}", tls=tls)
        last = await receiver.subscribe("last")
        await receiver.flush()
        async with Proxy(server.port) as proxy:
            sender = await front.connect(f"{scheme}://localhost:{proxy.own_port}", tls=tls)
            _noise = await sender.subscribe("noise")
            await sender.flush()
            proxy.listening.clear()
            for _ in range(1500):
                await sender.publish("last", bytes(1000))
            closing = asyncio.create_task(sender.close())
            await eventually(lambda: sender.closed)
            for _ in range(3):  # the first has been read, and perhaps refused, when the last one has passed
                await _pass_one("noise", receiver, proxy)
            proxy.listening.set()
            async with asyncio.timeout(TEST_TIMEOUT):
                await closing
            await eventually(lambda: last.received == 1500)
        await front.close()


@pytest.mark.usefixtures("no_leaks")
async def test_close_sends_everything_that_waits_for_a_paused_transport(shared_server: NatsServer) -> None:
    receiver = await aio.connect(shared_server.url)
    last = await receiver.subscribe("last")
    await receiver.flush()
    async with Proxy(shared_server.port) as proxy:
        sender = await aio.connect(proxy.url)
        proxy.listening.clear()
        sent = 0
        while not sender._core.write_buffer_full or not _link(sender).write_paused:
            sender._core.send_frame(sender._core.outbound.encode("last", bytes(FLUSH_THRESHOLD), "", None))
            sent += 1
            await asyncio.sleep(0)
        closing = asyncio.create_task(sender.close())
        await eventually(lambda: sender.closed)
        proxy.listening.set()
        async with asyncio.timeout(TEST_TIMEOUT):
            await closing
        await eventually(lambda: last.received == sent)
    await receiver.close()


async def test_close_needs_one_answer_of_the_server_even_through_a_proxy_that_hides_the_end(
    front: Front, shared_server: NatsServer
) -> None:
    async with Proxy(shared_server.port) as proxy:
        proxy.passes_ends = False
        connection = await front.connect(proxy.url)
        async with asyncio.timeout(TEST_TIMEOUT):
            await connection.close()


async def test_close_continues_reading_if_a_full_subscription_had_paused_it(
    front: Front, shared_server: NatsServer
) -> None:
    sender, receiver = await front.connect(shared_server.url), await front.connect(shared_server.url)
    full = await receiver.subscribe("full", pending_msgs_limit=10, overflow="pause")
    await receiver.flush()
    for _ in range(20_000):
        await sender.publish("full", bytes(1000))
    await sender.flush()
    await eventually(lambda: full.pending[0] >= 10)
    async with asyncio.timeout(TEST_TIMEOUT):
        await receiver.close()


async def test_close_ends_when_the_server_dies_meanwhile(front: Front, server: NatsServer) -> None:
    connection = await front.connect(server.url)
    server.pause()
    closing = asyncio.create_task(connection.close())
    await eventually(lambda: connection.closed)
    server.kill()
    async with asyncio.timeout(TEST_TIMEOUT):
        await closing


async def test_close_waits_for_a_paused_server_until_its_timeout(
    front: Front, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.aio.core._CLOSE_TIMEOUT", 0.2)
    connection = await front.connect(server.url)
    server.pause()
    async with asyncio.timeout(TEST_TIMEOUT):
        await connection.close()
    server.resume()


async def test_close_after_an_unanswered_drain_does_not_wait_again(front: Front, server: NatsServer) -> None:
    connection = await front.connect(server.url)
    _kept = await connection.subscribe("a")
    await connection.flush()
    server.pause()
    async with asyncio.timeout(TEST_TIMEOUT):
        with pytest.raises(DrainTimeoutError):
            await connection.drain(0.2)
    assert connection.closed
    server.resume()


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("turns", [1, 2, 5])
async def test_a_cancelled_close_leaves_no_socket_open_although_the_server_is_silent(
    server: NatsServer, turns: int
) -> None:
    connection = await aio.connect(server.url)
    server.pause()
    closing = asyncio.create_task(connection.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    async with asyncio.timeout(TEST_TIMEOUT):
        await asyncio.shield(_link(connection).closed)
        await connection.close()
    server.resume()


async def test_the_tls_socket_is_closed_once_although_close_processes_bytes_after_the_last_answer(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second close, asyncio's TLS ignores an abort, and keeps the socket for 30 s."""
    with NatsServer(jetstream=False, config=certificates.config()) as server:
        connection = await aio.connect(f"tls://localhost:{server.port}", tls=TLSOptions(ca_file=certificates.ca))
        link = _link(connection)
        transport = link._transport
        assert transport is not None
        close = transport.close
        calls = 0

        def close_and_hand_on() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                link.get_buffer(5)[:5] = b"+OK\r\n"
                link.buffer_updated(5)
            close()

        monkeypatch.setattr(transport, "close", close_and_hand_on)
        async with asyncio.timeout(TEST_TIMEOUT):
            await connection.close()
        assert calls == 1


async def test_close_in_a_callback_sends_everything_published_although_another_close_cancels_it(
    shared_server: NatsServer,
) -> None:
    receiver = await aio.connect(shared_server.url)
    last = await receiver.subscribe("last")
    await receiver.flush()
    async with Proxy(shared_server.port) as proxy:
        sender = await aio.connect(proxy.url)

        async def quit_at_once(_: object) -> None:
            for _ in range(8000):
                sender._core.send_frame(sender._core.outbound.encode("last", bytes(1000), "", None))
            await sender.close()

        await sender.subscribe("quit", callback=quit_at_once)
        await sender.flush()
        proxy.listening.clear()
        await receiver.publish("quit", b"")
        await eventually(lambda: sender.closed)
        closing = asyncio.create_task(sender.close())
        await asyncio.sleep(0.05)  # longer than a cancelled task needs to close the socket
        proxy.listening.set()
        async with asyncio.timeout(TEST_TIMEOUT):
            await closing
        await eventually(lambda: last.received == 8000)
    await receiver.close()


async def test_an_answered_drain_sends_everything_published_although_a_later_ping_times_out(
    shared_server: NatsServer,
) -> None:
    receiver = await aio.connect(shared_server.url)
    last = await receiver.subscribe("last")
    begun = await receiver.subscribe("begun")
    await receiver.flush()
    async with Proxy(shared_server.port) as proxy:
        sender = await aio.connect(proxy.url)
        going = asyncio.Event()

        async def stuck(_: object) -> None:
            await sender.publish("begun", b"")
            await going.wait()

        await sender.subscribe("a", callback=stuck)
        await sender.flush()
        await receiver.publish("a", b"")
        await begun.next_msg(timeout=TEST_TIMEOUT)
        draining = asyncio.create_task(sender.drain(2.0))
        await asyncio.sleep(0)
        await eventually(lambda: not sender._core.client.pings)  # the ping of the drain is answered
        proxy.listening.clear()
        for _ in range(8000):
            sender._core.send_frame(sender._core.outbound.encode("last", bytes(1000), "", None))
        _link(sender).tick()  # like the ping timer
        await eventually(lambda: sender.closed)
        proxy.listening.set()
        with pytest.raises(DrainTimeoutError):
            await draining
        await eventually(lambda: last.received == 8000)
    await receiver.close()
