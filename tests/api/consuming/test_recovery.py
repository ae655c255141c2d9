"""Tests of fetch and consume when sessions, servers and consumers disappear and return."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    Warnings,
    consumer_of,
    cut_off,
    numbered,
    payloads,
    spy_on_pulls,
    take,
    wait_for_deliveries,
    wait_for_open_pulls,
)
from tests.connection.support import Proxy
from tests.fronts import PROFILES, FrontName, Ground, Profile, Recorder, connect, eventually, open_ground

from jetspark.aio.jetstream import Consumer, JetStream
from jetspark.errors import (
    ConsumerNotFoundError,
    DisconnectedError,
    MissedHeartbeatError,
    NoConsumerResponseError,
)
from jetspark.events import Reconnected
from jetspark.server import NatsServer

QUICK: dict[str, Any] = {"reconnect_wait": 0.05}


@asynccontextmanager
async def through_proxy(ground: Ground, **options: Any) -> AsyncIterator[tuple[Proxy, JetStream, Recorder]]:
    """Open a context of the front under test through a proxy that can cut it off."""
    recorder = Recorder()
    async with Proxy(ground.server.port) as proxy:
        connection = await connect(
            ground.front, proxy.url, on_event=recorder, **{**ground.profile.options, **QUICK, **options}
        )
        try:
            yield proxy, connection.jetstream(domain=ground.profile.domain), recorder
        finally:
            await connection.close()


@asynccontextmanager
async def own_server(front: FrontName, profile: Profile) -> AsyncIterator[tuple[NatsServer, Ground]]:
    """A server that a test can kill."""
    config = dict(profile.config)
    with NatsServer(config=config) as server:
        async with open_ground(front, profile, server, **QUICK) as ground:
            yield server, ground


async def handle_of(js: JetStream, consumer: Consumer) -> Consumer:
    return await js.consumer(consumer.stream_name, consumer.name)


@pytest.mark.conformance("REC-03", "REC-04", "REC-05")
async def test_consume_waits_for_the_session_and_then_pulls_once(ground: Ground) -> None:
    consumer = await consumer_of(ground, durable_name="d")  # one without name lasts 5 s without a pull
    requests = await ground.spy("$JS.API.>")
    reported = Warnings()
    async with through_proxy(ground) as (proxy, js, recorder):
        handle = await handle_of(js, consumer)
        async with handle.consume(timeout=30, idle_heartbeat=0.6, max_messages=10, on_error=reported.add) as messages:
            await wait_for_open_pulls(ground, consumer, 1)
            before = len(await requests.settled())
            proxy.open = False
            proxy.cut()
            await asyncio.sleep(1.5)  # longer than two heartbeats
            assert reported.errors == []
            proxy.open = True
            await recorder.wait(Reconnected)
            await ground.fill(f"{consumer.stream_name}.a", b"0")
            assert payloads(await take(messages, 1)) == [b"0"]
            await requests.settled()
    assert reported.errors == []
    after = requests.messages[before:]
    pulls = [message for message in after if ".MSG.NEXT." in message.subject]
    assert len(pulls) == 1
    assert b'"batch":10' in pulls[0].payload
    assert not [subject for subject in requests.subjects[before:] if ".CONSUMER.INFO." in subject]


@pytest.mark.conformance("REC-05")
async def test_the_consumer_is_looked_up_after_a_reconnect_only_on_request(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for verify in (False, True):
        async with through_proxy(ground) as (proxy, js, recorder):
            handle = await handle_of(js, consumer)
            async with handle.consume(verify_on_reconnect=verify) as messages:
                await ground.fill(f"{consumer.stream_name}.a", b"0")
                await take(messages, 1)
                before = proxy.said.count(b".CONSUMER.INFO.")
                await cut_off(ground, proxy, consumer)
                await recorder.wait(Reconnected)
                await ground.fill(f"{consumer.stream_name}.a", b"1")
                assert payloads(await take(messages, 1)) == [b"1"]
                assert (proxy.said.count(b".CONSUMER.INFO.") > before) is verify
        # Otherwise the server may send the next message to the old session.
        await wait_for_open_pulls(ground, consumer, 0)


@pytest.mark.conformance("REC-05")
async def test_verify_on_reconnect_ends_consume_when_the_consumer_is_gone(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    async with through_proxy(ground) as (proxy, js, _):
        handle = await handle_of(js, consumer)
        async with handle.consume(verify_on_reconnect=True) as messages:
            await wait_for_open_pulls(ground, consumer, 1)
            proxy.open = False
            proxy.cut()
            await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
            proxy.open = True
            with pytest.raises(ConsumerNotFoundError):
                await take(messages, 1)


@pytest.mark.conformance("REC-06")
async def test_r3_a_missing_consumer_is_reported_and_read_again_once_it_is_recreated(
    front: FrontName, profile: Profile
) -> None:
    """A memory consumer is gone after a restart. Consume stays open and reads again when the consumer exists (R3)."""
    async with own_server(front, profile) as (server, ground):
        stream = await ground.stream(storage="file")
        fields: dict[str, Any] = {"durable_name": "d", "mem_storage": True}
        consumer = await stream.create_consumer(**fields)
        reported = Warnings()
        async with consumer.consume(on_error=reported.add) as messages:
            await ground.fill(f"{stream.name}.a", b"0")
            await (await take(messages, 1))[0].ack_sync()
            server.kill()
            server.start()
            await reported.wait(NoConsumerResponseError, 2)
            await ground.admin_js.create_consumer(stream.name, deliver_policy="new", **fields)
            await ground.fill(f"{stream.name}.a", b"1")
            assert payloads(await take(messages, 1)) == [b"1"]


@pytest.mark.conformance("REC-07")
async def test_counters_survive_cuts_while_the_server_keeps_running(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1000, ack_wait=timedelta(seconds=2))
    seen: set[bytes] = set()
    async with through_proxy(ground) as (proxy, js, recorder):
        handle = await handle_of(js, consumer)
        async with handle.consume(max_messages=20, timeout=2) as messages:
            for _ in range(3):
                for message in await take(messages, 50):
                    assert messages.pending[0] <= 40
                    seen.add(message.payload)
                    await message.ack()
                count = len(recorder.of(Reconnected))
                proxy.cut()
                await recorder.wait(Reconnected, count + 1)
            async with asyncio.timeout(40):
                async for message in messages:
                    assert messages.pending[0] <= 40
                    seen.add(message.payload)
                    await message.ack()
                    if len(seen) == 1000:
                        break
    assert seen == set(numbered(0, 1000))


@pytest.mark.conformance("REC-07")
async def test_counters_survive_a_restart_of_the_server(front: FrontName) -> None:
    async with own_server(front, PROFILES["default"]) as (server, ground):
        stream = await ground.stream(storage="file")
        consumer = await stream.create_consumer(durable_name="d", ack_wait=timedelta(seconds=2))
        await ground.fill(f"{stream.name}.a", *numbered(0, 1000))
        seen: set[bytes] = set()
        async with consumer.consume(max_messages=50) as messages:
            for message in await take(messages, 300):
                seen.add(message.payload)
                await message.ack()
            server.kill()
            server.start()
            async with asyncio.timeout(20):
                async for message in messages:
                    seen.add(message.payload)
                    await message.ack()
                    if len(seen) == 1000:
                        break
        assert seen == set(numbered(0, 1000))


@pytest.mark.conformance("REC-08")
async def test_r1_a_cut_ends_a_fetch_at_once_with_its_messages(ground: Ground) -> None:
    """The batch ends with an error after its messages, and no pull is left (R1)."""
    consumer = await consumer_of(ground, messages=3)
    spy = await spy_on_pulls(ground, consumer)
    async with through_proxy(ground) as (proxy, js, recorder):
        handle = await handle_of(js, consumer)
        fetching = asyncio.create_task(handle.fetch(10, timeout=20))
        await wait_for_deliveries(ground, consumer, 3, js)
        empty = asyncio.create_task(handle.next(20))
        await wait_for_open_pulls(ground, consumer, 2)
        begin = time.monotonic()
        proxy.cut()
        batch = await fetching
        with pytest.raises(DisconnectedError):
            await empty
        assert time.monotonic() - begin < 10.0
        assert payloads(list.copy(batch)) == numbered(0, 3)
        assert isinstance(batch.error, DisconnectedError)
        await recorder.wait(Reconnected)
        assert len(await spy.settled()) == 2
        await wait_for_open_pulls(ground, consumer, 0)
        await ground.fill(f"{consumer.stream_name}.a", b"3")
        assert payloads(await handle.fetch(1, timeout=5)) == [b"3"]


@pytest.mark.conformance("REC-08")
async def test_a_fetch_without_a_session_waits_for_one(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    async with through_proxy(ground) as (proxy, js, recorder):
        handle = await handle_of(js, consumer)
        proxy.open = False
        proxy.cut()
        await eventually(lambda: "Disconnected" in recorder.names)
        with pytest.raises(DisconnectedError, match="in time"):
            await handle.fetch(1, timeout=0.1)
        fetching = asyncio.create_task(handle.fetch(1, timeout=10))
        proxy.open = True
        assert payloads(await fetching) == [b"0"]


@pytest.mark.conformance("REC-04")
async def test_pulls_that_could_not_be_sent_are_not_sent_after_a_reconnect(front: FrontName) -> None:
    async with own_server(front, PROFILES["default"]) as (server, ground):
        stream = await ground.stream(storage="file")
        consumer = await stream.create_consumer(durable_name="d")
        reported = Warnings()
        recorder = Recorder()
        connection = await ground.connect(on_event=recorder, **QUICK)
        handle = await connection.jetstream().consumer(stream.name, "d")
        async with handle.consume(on_error=reported.add) as messages:
            server.kill()
            await eventually(lambda: "Disconnected" in recorder.names)
            server.start()
            await recorder.wait(Reconnected)
            await ground.fill(f"{stream.name}.a", b"0")
            assert payloads(await take(messages, 1)) == [b"0"]
            await wait_for_open_pulls(ground, consumer, 1)
        assert reported.of(MissedHeartbeatError) == []


@pytest.mark.conformance("REC-02")
async def test_the_subscription_of_consume_is_restored_before_its_pull(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    async with through_proxy(ground) as (proxy, js, recorder):
        handle = await handle_of(js, consumer)
        async with handle.consume() as messages:
            await take(messages, 1)
            said = len(proxy.said)
            await cut_off(ground, proxy, consumer)
            await recorder.wait(Reconnected)
            await ground.fill(f"{consumer.stream_name}.a", b"1")
            assert payloads(await take(messages, 1)) == [b"1"]
    talk = bytes(proxy.said[said:])
    assert 0 < talk.index(b"\r\nSUB ") < talk.index(b"\r\nPUB ")


async def test_a_consume_whose_subscription_is_refused_ends_with_the_error(front: FrontName) -> None:
    bob = {
        "user": "bob",
        "password": "b",
        "permissions": {"subscribe": {"allow": "_INBOX.only.>", "deny": "_INBOX.no.>"}},
    }
    admin = {"user": "admin", "password": "rabbit"}
    with NatsServer(config={"authorization": {"users": [bob, admin]}}) as server:
        private = Profile(
            "private", options={"user": "bob", "password": "b", "inbox_prefix": "_INBOX.only"}, admin_options=admin
        )
        async with open_ground(front, private, server) as ground:
            consumer = await consumer_of(ground)
            client = inner_client(ground)
            client.options = replace(client.options, inbox_prefix="_INBOX.no")
            async with consumer.consume() as messages:
                with pytest.raises(PermissionError):
                    await take(messages, 1)
            with pytest.raises(PermissionError):
                await consumer.fetch(1)


def inner_client(ground: Ground) -> Any:
    """Return the state machine of the connection under test."""
    connection: Any = ground.nc
    return connection._core.client if ground.front == "aio" else connection.inner._core.inner.client


@pytest.mark.blocking
async def test_consume_ends_when_the_connection_is_closed(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    connection = await ground.connect()
    handle = await handle_of(connection.jetstream(domain=ground.profile.domain), consumer)
    messages = handle.consume()
    await wait_for_open_pulls(ground, consumer, 1)
    await connection.close()
    with pytest.raises(StopAsyncIteration):
        await take(messages, 1)
    assert messages.closed
    assert messages.error is None
    await messages.stop()
