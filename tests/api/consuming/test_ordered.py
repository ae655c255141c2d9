"""Tests of ordered pull consumers on real servers, on both fronts."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    Warnings,
    dropping_context,
    numbered,
    payloads,
    pull_bodies,
    take,
)
from tests.connection.support import Proxy
from tests.fronts import PROFILES, FrontName, Ground, Recorder, connect, eventually, open_ground

from jetspark.aio.jetstream import Stream
from jetspark.errors import (
    ConfigError,
    ConsumerBusyError,
    ConsumerDeletedError,
    ConsumerResettingError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    StreamNotFoundError,
)
from jetspark.events import ErrorOccurred, Reconnected
from jetspark.server import NatsCluster, NatsServer


async def filled(ground: Ground, count: int, **fields: Any) -> Stream:
    """Return a stream with the messages `0`, `1`, ..."""
    stream = await ground.stream(**fields)
    await ground.fill(f"{stream.name}.a", *numbered(0, count))
    return stream


async def wait_for_no_consumer(ground: Ground, stream: str) -> None:
    """Wait until the stream has no consumer."""
    deadline = asyncio.get_running_loop().time() + 10
    while names := await ground.admin_js.consumer_names(stream).all():
        assert asyncio.get_running_loop().time() < deadline, names
        await asyncio.sleep(0.01)


@pytest.mark.conformance("ORD-10")
@pytest.mark.profiles
async def test_ordered_consumers_are_created_as_ephemeral_consumers(ground: Ground) -> None:
    stream = await filled(ground, 3)
    ordered = stream.ordered_consumer(name_prefix="reader", deliver_policy="last_per_subject")
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 1)) == [b"2"]
        info = await ordered.info()
        assert ordered.cached_info is not None
        assert (info.name, ordered.cached_info.name) == ("reader_1", "reader_1")
        config = info.config
        assert (config.ack_policy, config.num_replicas, config.mem_storage) == ("none", 1, True)
        assert (config.inactive_threshold, config.filter_subject) == (timedelta(minutes=5), ">")
        assert config.deliver_subject is None
    await wait_for_no_consumer(ground, stream.name)
    with pytest.raises(ConsumerResettingError):
        await ordered.info()
    with pytest.raises(ConfigError, match="durable_name"):
        stream.ordered_consumer(durable_name="d")  # type: ignore[call-arg]


async def test_until_caught_up_ends_after_the_last_message(ground: Ground) -> None:
    stream = await filled(ground, 250)
    ordered = ground.js.ordered_consumer(stream.name)
    async with ordered.consume(until_caught_up=True, max_messages=20) as messages:
        seen = [message.payload async for message in messages]
    assert seen == numbered(0, 250)
    assert ordered.last_sequence == 250
    async with ordered.consume(until_caught_up=True) as messages:
        assert [message async for message in messages] == []
    await ground.fill(f"{stream.name}.a", b"more")
    async with ordered.consume(until_caught_up=True) as messages:
        assert [message.payload async for message in messages] == [b"more"]
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
async def test_until_caught_up_ends_when_pending_messages_are_purged(ground: Ground) -> None:
    stream = await filled(ground, 100)
    ordered = stream.ordered_consumer()
    async with ordered.consume(until_caught_up=True, max_messages=2, timeout=1) as messages:
        await take(messages, 2)
        await stream.purge()
        rest = [message async for message in messages]
    assert len(rest) <= 2


@pytest.mark.conformance("ORD-03", "ORD-09")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_every_message_comes_once_and_in_order_although_deliveries_are_lost(ground: Ground) -> None:
    """Every tenth delivery is dropped on the way (K-drop). Late deliveries of an earlier consumer are ignored."""
    stream = await filled(ground, 200)
    async with dropping_context(ground, lambda number: number % 10 == 0, of_each=True) as js:
        reported = Warnings()
        async with js.ordered_consumer(stream.name).consume(until_caught_up=True, on_error=reported.add) as messages:
            seen = [message.payload async for message in messages]
    assert seen == numbered(0, 200)
    assert reported.errors == []
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.conformance("ORD-04")
async def test_a_heartbeat_reveals_that_the_last_delivery_was_lost(ground: Ground) -> None:
    stream = await filled(ground, 1)
    async with dropping_context(ground, lambda number: number == 1) as js:
        ordered = js.ordered_consumer(stream.name)
        async with ordered.consume(timeout=1, idle_heartbeat=0.5) as messages:
            assert payloads(await take(messages, 1)) == [b"0"]


@pytest.mark.conformance("ORD-11")
async def test_r4_a_deleted_consumer_is_replaced_after_the_last_message(ground: Ground) -> None:
    """The new consumer starts at the next sequence, without a loss or a repetition (R4)."""
    stream = await filled(ground, 5)
    reported = Warnings()
    ordered = stream.ordered_consumer()
    async with ordered.consume(on_error=reported.add) as messages:
        assert payloads(await take(messages, 5)) == numbered(0, 5)
        for number in range(5, 8):
            assert ordered.cached_info is not None
            await ground.admin_js.delete_consumer(stream.name, ordered.cached_info.name)
            await ground.fill(f"{stream.name}.a", b"%d" % number)
            assert payloads(await take(messages, 1)) == [b"%d" % number]
    await eventually(lambda: len(reported.errors) >= 3, what="a warning for each")  # the handler has its own thread
    assert all(isinstance(error, ConsumerDeletedError | NoConsumerResponseError) for error in reported.errors)
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.blocking
async def test_r7_a_replacement_keeps_the_configuration_except_the_start(ground: Ground) -> None:
    stream = await filled(ground, 10)
    start = (await stream.info()).state.first_ts
    ordered = stream.ordered_consumer(
        deliver_policy="by_start_time", opt_start_time=start, inactive_threshold=timedelta(seconds=77)
    )
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 5)) == numbered(0, 5)
        await eventually(lambda: messages.pending[0] == 5)  # the next consumer starts after these messages
        assert ordered.cached_info is not None
        await ground.admin_js.delete_consumer(stream.name, ordered.cached_info.name)
        assert payloads(await take(messages, 5)) == numbered(5, 10)
        await ground.fill(f"{stream.name}.a", b"10")
        assert payloads(await take(messages, 1)) == [b"10"]
        config = (await ordered.info()).config
    assert (config.deliver_policy, config.opt_start_seq, config.opt_start_time) == ("by_start_sequence", 11, None)
    assert config.inactive_threshold == timedelta(seconds=77)


@pytest.mark.conformance("ORD-11")
async def test_the_default_heartbeat_is_five_seconds_or_half_of_expires(ground: Ground) -> None:
    stream = await filled(ground, 1)
    pulls = await ground.spy(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.>")
    for count, timeout in enumerate((30, 10, 4), 1):
        async with stream.ordered_consumer().consume(timeout=timeout):
            await pulls.wait(count)
    assert [body["idle_heartbeat"] for body in pull_bodies(pulls)] == [5 * 10**9, 5 * 10**9, 2 * 10**9]


@pytest.mark.conformance("ORD-06")
@pytest.mark.parametrize(("policy", "expected"), [("last", b"2"), ("new", b"3")])
async def test_the_start_policy_stays_until_the_first_message(ground: Ground, policy: str, expected: bytes) -> None:
    stream = await filled(ground, 3)
    async with dropping_context(ground, lambda number: number == 1) as js:
        ordered = js.ordered_consumer(stream.name, deliver_policy=policy)
        async with ordered.consume(timeout=1, idle_heartbeat=0.5) as messages:
            await eventually(lambda: ordered.cached_info is not None)
            if policy == "new":
                await ground.fill(f"{stream.name}.a", b"3", b"4")
            assert payloads(await take(messages, 1)) == [expected]


@pytest.mark.conformance("ORD-05", "ORD-11")
async def test_r8_a_cut_connection_leads_to_a_new_consumer_with_a_new_name(ground: Ground) -> None:
    """No consumer is created without a session, and the earlier consumer is deleted (R8, R14)."""
    stream = await filled(ground, 100)
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
    stream = await filled(ground, 1)
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
            stream = await filled(ground, 3, storage="file")
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
    stream = await filled(ground, 10)
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
    stream = await filled(ground, 1)
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
    stream = await filled(ground, 1)
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


@pytest.mark.conformance("ORD-12")
async def test_fetches_continue_after_the_last_message_each_with_its_own_consumer(ground: Ground) -> None:
    stream = await filled(ground, 10)
    creations = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    ordered = stream.ordered_consumer(name_prefix="o")
    assert payloads(await ordered.fetch(4)) == numbered(0, 4)
    assert (await ordered.next()).payload == b"4"
    assert payloads(await ordered.fetch(10, timeout=0.5)) == numbered(5, 10)
    with pytest.raises(NoMessageError):
        await ordered.next(0.2)
    await creations.settled()
    assert [subject.rpartition(".")[2] for subject in creations.subjects] == ["o_1", "o_2", "o_3", "o_4"]
    await ground.fill(f"{stream.name}.a", b"10")
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 1)) == [b"10"]
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.conformance("ORD-12")
@pytest.mark.blocking
async def test_a_second_call_at_the_same_time_is_refused(ground: Ground) -> None:
    stream = await filled(ground, 1)
    creations = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    ordered = stream.ordered_consumer()
    async with ordered.consume() as messages:
        await take(messages, 1)
        for call in (ordered.fetch, ordered.next):
            with pytest.raises(ConsumerBusyError):
                await call(1)
        with pytest.raises(ConsumerBusyError):
            await ordered.consume()
    fetching = asyncio.create_task(ordered.fetch(1))
    await creations.wait(2)
    with pytest.raises(ConsumerBusyError):
        await ordered.next()
    await ground.fill(f"{stream.name}.a", b"1")
    assert payloads(await fetching) == [b"1"]


@pytest.mark.blocking
async def test_messages_that_were_not_taken_are_delivered_again(ground: Ground) -> None:
    stream = await filled(ground, 20)
    ordered = stream.ordered_consumer()
    async with ordered.consume(max_messages=10) as messages:
        assert payloads(await take(messages, 3)) == numbered(0, 3)
        await eventually(lambda: messages.pending[0] == 7)
    assert ordered.last_sequence == 3
    assert payloads(await ordered.fetch(5)) == numbered(3, 8)


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_a_cancelled_fetch_loses_nothing(ground: Ground) -> None:
    stream = await filled(ground, 5)
    ordered = stream.ordered_consumer()
    fetching = asyncio.create_task(ordered.fetch(10))
    await eventually(lambda: ordered.last_sequence == 5)  # the messages have arrived
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fetching
    assert payloads(await ordered.fetch(5)) == numbered(0, 5)
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.blocking
async def test_a_callback_gets_the_messages_in_order(ground: Ground) -> None:
    stream = await filled(ground, 50)
    seen: list[bytes] = []

    def handle(message: Any) -> None:
        seen.append(message.payload)

    context = await stream.ordered_consumer().consume(handle, until_caught_up=True, max_messages=5)
    await context.wait_closed()
    assert seen == numbered(0, 50)


@pytest.mark.blocking
async def test_new_messages_are_read_from_the_moment_that_consume_returns(ground: Ground) -> None:
    stream = await filled(ground, 2)
    seen: list[bytes] = []

    def handle(message: Any) -> None:
        seen.append(message.payload)

    context = await stream.ordered_consumer(deliver_policy="new").consume(handle)
    assert len(await ground.admin_js.consumer_names(stream.name).all()) == 1
    async with stream.ordered_consumer(deliver_policy="new").consume() as messages:
        assert len(await ground.admin_js.consumer_names(stream.name).all()) == 2
        await ground.fill(f"{stream.name}.a", b"2", b"3")
        assert payloads(await take(messages, 2)) == [b"2", b"3"]
    await eventually(lambda: seen == [b"2", b"3"])
    await context.stop()


@pytest.mark.blocking
async def test_the_plain_consume_can_be_awaited_too(ground: Ground) -> None:
    stream = await filled(ground, 1)
    context = await (await stream.create_consumer(ack_policy="none")).consume()
    assert payloads(await take(context, 1)) == [b"0"]
    await context.stop()


async def test_consume_by_bytes_delivers_everything(ground: Ground) -> None:
    stream = await filled(ground, 100)
    async with stream.ordered_consumer().consume(until_caught_up=True, max_bytes=1000) as messages:
        assert [message.payload async for message in messages] == numbered(0, 100)


async def test_a_drained_consume_ends_after_the_received_messages(ground: Ground) -> None:
    stream = await filled(ground, 30)
    ordered = stream.ordered_consumer()
    messages = await ordered.consume(max_messages=10)
    await eventually(lambda: messages.pending[0] == 10)
    await messages.drain()
    assert [message.payload async for message in messages] == numbered(0, 10)
    assert payloads(await ordered.fetch(1)) == [b"10"]


@pytest.mark.slow
@pytest.mark.matrix
async def test_consume_continues_after_a_change_of_the_leader(front: FrontName) -> None:
    with NatsCluster(3) as cluster:
        async with open_ground(front, PROFILES["default"], cluster[0], reconnect_wait=0.05) as ground:
            stream = await filled(ground, 200, num_replicas=3, storage="file")
            async with stream.ordered_consumer().consume(until_caught_up=True, max_messages=10) as messages:
                seen = payloads(await take(messages, 50))
                await ground.admin.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream.name}")
                seen += payloads(await take(messages, 50, timeout=40))
                leader = cluster.leader_of_stream(stream.name)
                if leader is not None and leader is not cluster[0]:
                    leader.kill()
                seen += [message.payload async for message in messages]
            assert seen == numbered(0, 200)
