"""Ordered pull consumers after a cut connection, a restart, and errors of the server."""

from __future__ import annotations

import time

import pytest
from tests.api.consuming.support import (
    Warnings,
    dropping_context,
    filled_stream,
    numbered,
    payloads,
    take,
)
from tests.connection.support import Proxy
from tests.fronts import PROFILES, FrontName, Ground, Recorder, connect, eventually, open_ground

from jetspark.errors import (
    ConsumerDeletedError,
    MissedHeartbeatError,
    StreamNotFoundError,
)
from jetspark.events import ErrorOccurred, Reconnected
from jetspark.server import NatsCluster, NatsServer


@pytest.mark.conformance("ORD-05", "ORD-11")
async def test_r8_a_cut_connection_leads_to_a_new_consumer_with_a_new_name(ground: Ground) -> None:
    """No consumer is created without a session, and the earlier consumer is deleted (R8, R14)."""
    stream = await filled_stream(ground, 100)
    recorder = Recorder()
    creations = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    reported = Warnings()
    async with Proxy(ground.server.port) as proxy:
        options = {**ground.profile.options, "reconnect_wait": 0.05, "on_event": recorder}
        connection = await connect(ground.front, proxy.url, **options)
        ordered = connection.jetstream(domain=ground.profile.domain).ordered_consumer(stream.name)
        async with ordered.consume(max_messages=10, on_error=reported.add) as messages:
            seen = payloads(await take(messages, 20))
            for number in (2, 3, 4):
                proxy.cut()
                await creations.wait(number)
                seen += payloads(await take(messages, 20))
            failures = len(recorder.of(ErrorOccurred))
            proxy.open = False
            proxy.cut()
            await recorder.wait(ErrorOccurred, failures + 2)  # the client tries to connect
            proxy.open = True
            seen += payloads(await take(messages, 20))
        await connection.close()
    assert seen == numbered(0, 100)
    assert reported.errors == []
    # Requests made without a session would be sent in the next one.
    assert len(creations.messages) == len(set(creations.subjects)) == 5
    await wait_for_last_consumer(ground, stream.name)


async def wait_for_last_consumer(ground: Ground, stream: str) -> None:
    """Wait until only the last consumer is left. The others are deleted after the creation of the next one."""

    async def few() -> bool:
        return len(await ground.admin_js.consumer_names(stream).all()) <= 1

    await eventually(few, what="at most one consumer")


@pytest.mark.conformance("ORD-05", "ORD-11")
@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
async def test_missed_heartbeats_lead_to_a_new_consumer(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    reported = Warnings()
    async with dropping_context(ground, lambda number: False) as js:
        ordered = js.ordered_consumer(stream.name)
        spy = await ground.spy("$JS.API.CONSUMER.MSG.NEXT.>")  # so that the server sends no 503
        async with ordered.consume(timeout=1, idle_heartbeat=0.5, max_messages=2, on_error=reported.add) as messages:
            assert payloads(await take(messages, 1)) == [b"0"]
            await spy.wait(2)
            assert ordered.cached_info is not None
            first = ordered.cached_info.name
            await ground.admin_js.delete_consumer(stream.name, first)
            await eventually(lambda: ordered.cached_info is not None and ordered.cached_info.name != first)
            await ground.fill(f"{stream.name}.a", b"1")
            assert payloads(await take(messages, 1)) == [b"1"]
    assert all(isinstance(error, MissedHeartbeatError | ConsumerDeletedError) for error in reported.errors)


@pytest.mark.conformance("ORD-05")
async def test_r9_recovery_after_a_restart_needs_no_reader(front: FrontName) -> None:
    """The memory consumer is gone. The engine creates the next one without a reader (R9)."""
    with NatsServer() as server:
        async with open_ground(front, PROFILES["default"], server, reconnect_wait=0.05) as ground:
            stream = await filled_stream(ground, 3, storage="file")
            ordered = stream.ordered_consumer()
            async with ordered.consume() as messages:
                assert payloads(await take(messages, 3)) == numbered(0, 3)
                first = ordered.cached_info
                server.kill()
                server.start()
                await eventually(lambda: ordered.cached_info not in (None, first))
                await ground.fill(f"{stream.name}.a", b"3")
                await eventually(lambda: messages.pending[0] == 1)
                assert payloads(await take(messages, 1)) == [b"3"]


async def test_r14_many_restarts_leave_no_consumers(ground: Ground) -> None:
    stream = await filled_stream(ground, 10)
    recorder = Recorder()
    async with Proxy(ground.server.port) as proxy:
        options = {**ground.profile.options, "reconnect_wait": 0.01, "on_event": recorder}
        connection = await connect(ground.front, proxy.url, **options)
        ordered = connection.jetstream(domain=ground.profile.domain).ordered_consumer(stream.name)
        async with ordered.consume() as messages:
            await take(messages, 10)
            for number in range(1, 11):
                proxy.cut()
                await recorder.wait(Reconnected, number)
            await ground.fill(f"{stream.name}.a", b"10")
            assert payloads(await take(messages, 1)) == [b"10"]
            await wait_for_last_consumer(ground, stream.name)
        await connection.close()


@pytest.mark.conformance("ORD-07")
async def test_a_deleted_stream_ends_the_consume_with_its_error(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    ordered = stream.ordered_consumer()
    async with ordered.consume() as messages:
        await take(messages, 1)
        await ground.admin_js.delete_stream(stream.name)
        with pytest.raises(StreamNotFoundError):
            await take(messages, 1)
    with pytest.raises(StreamNotFoundError):
        await ordered.fetch(1)


@pytest.mark.conformance("ORD-07", "ORD-08")
@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
async def test_a_creation_that_fails_temporarily_is_retried_and_stop_ends_the_wait(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    # Without a responder, as if JetStream did not answer.
    js = ground.nc.jetstream(prefix="nobody.there")
    reported = Warnings()
    begin = time.monotonic()
    async with js.ordered_consumer(stream.name).consume(on_error=reported.add) as messages:
        await eventually(lambda: len(reported.errors) >= 2)
        assert 0.7 < time.monotonic() - begin < 5.0  # a second, or a little less because of jitter
        # The next attempt is 1.5 s away, or more.
        begin = time.monotonic()
        await messages.stop()
    assert time.monotonic() - begin < 1.0
    limited = js.ordered_consumer(stream.name, max_reset_attempts=1)
    async with limited.consume() as messages:
        with pytest.raises(ConnectionError):
            await take(messages, 1)


@pytest.mark.slow
@pytest.mark.matrix
async def test_consume_continues_after_a_change_of_the_leader(front: FrontName) -> None:
    with NatsCluster(3) as cluster:
        async with open_ground(front, PROFILES["default"], cluster[0], reconnect_wait=0.05) as ground:
            stream = await filled_stream(ground, 200, num_replicas=3, storage="file")
            async with stream.ordered_consumer().consume(until_caught_up=True, max_messages=10) as messages:
                seen = payloads(await take(messages, 50))
                await ground.admin.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream.name}")
                seen += payloads(await take(messages, 50, timeout=40))
                leader = cluster.leader_of_stream(stream.name)
                if leader is not None and leader is not cluster[0]:
                    leader.kill()
                seen += [message.payload async for message in messages]
            assert seen == numbered(0, 200)
