"""Requests of the JetStream API: read requests are repeated, and write requests are not."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import SILENCE, JetStreamScript, refusal
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    APIError,
    ConsumerNotFoundError,
    DisconnectedError,
    JetStreamNotEnabledError,
    RequestTimeoutError,
)


async def test_a_read_request_without_an_answer_is_sent_four_times_within_its_timeout(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    script.answer("CONSUMER.INFO.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await js.consumer_info("ORDERS", "worker", timeout=8)
    assert [pub.at for pub in script.asked("CONSUMER.INFO.>")] == [0.0, 2.0, 4.0, 6.0]
    assert clock.now == 8.0


async def test_the_first_answer_to_a_read_request_counts(world: World, script: JetStreamScript, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    consumer = script.consumer()
    script.answer("CONSUMER.INFO.>", SILENCE, SILENCE, consumer.info)
    assert (await js.consumer_info("ORDERS", "worker", timeout=8)).name == "worker"
    assert clock.now == 4.0


async def test_a_write_request_is_sent_once(world: World, script: JetStreamScript, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    script.answer("CONSUMER.DELETE.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await js.delete_consumer("ORDERS", "worker", timeout=8)
    assert clock.now == 8.0
    assert len(script.asked("CONSUMER.DELETE.>")) == 1


async def test_a_read_request_is_repeated_in_the_next_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect(reconnect_wait=1)).jetstream()
    consumer = script.consumer()
    script.answer("CONSUMER.INFO.>", SILENCE, consumer.info)
    asking = asyncio.create_task(js.consumer_info("ORDERS", "worker", timeout=60))
    await clock.until(1)
    server.session.reset()
    assert (await asking).name == "worker"
    assert clock.now == 1.05


async def test_a_write_request_in_flight_fails_with_the_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    script.answer("CONSUMER.DELETE.>", SILENCE)
    asking = asyncio.create_task(js.delete_consumer("ORDERS", "worker"))
    await clock.until(1)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await asking
    assert clock.now == 1.0


async def test_a_server_without_a_leader_is_asked_every_tenth_of_a_second(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    consumer = script.consumer()
    unavailable = refusal(503, 10008, "JetStream system temporarily unavailable")
    script.answer("CONSUMER.INFO.>", unavailable, unavailable, consumer.info)
    assert (await js.consumer_info("ORDERS", "worker")).name == "worker"
    assert [pub.at for pub in script.asked("CONSUMER.INFO.>")] == [0.0, 0.1, 0.2]


async def test_a_server_that_stays_without_a_leader_is_an_error_within_the_timeout(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    script.answer("CONSUMER.INFO.>", refusal(503, 10008, "JetStream system temporarily unavailable"))
    with pytest.raises(APIError) as caught:
        await js.consumer_info("ORDERS", "worker", timeout=1)
    assert caught.value.err_code == 10008
    assert 0.9 <= clock.now <= 1.0


@pytest.mark.conformance("WIR-11")
async def test_no_responders_at_the_api_means_that_jetstream_is_not_enabled(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    script.answer("CONSUMER.INFO.>", "503")
    with pytest.raises(JetStreamNotEnabledError):
        await js.consumer_info("ORDERS", "worker")
    assert clock.now == 0.0


async def test_an_error_of_the_server_has_its_class(world: World, script: JetStreamScript) -> None:
    js = (await world.connect()).jetstream()
    with pytest.raises(ConsumerNotFoundError):
        await js.consumer_info("ORDERS", "nobody")


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_read_request_can_be_cancelled_anywhere(world: World, script: JetStreamScript, moment: Moment) -> None:
    connection = await world.connect()
    js = connection.jetstream()
    consumer = script.consumer()

    async def ask() -> None:
        script.answer("CONSUMER.INFO.>", SILENCE, SILENCE, consumer.info)
        await js.consumer_info("ORDERS", "worker", timeout=8)

    async def usable() -> None:
        script.answer("CONSUMER.INFO.>", consumer.info)
        assert (await js.consumer_info("ORDERS", "worker")).name == "worker"
        assert len(connection._core.client.reply_mux) == 0

    await cancel_everywhere(ask, usable, moment)
