"""A publish that waits for its acknowledgement."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import StreamScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    DisconnectedError,
    NoStreamResponseError,
    PublishTimeoutError,
    StatusError,
)


async def test_a_publish_is_acknowledged(world: World, stream: StreamScript) -> None:
    js = (await world.connect()).jetstream()
    ack = await js.publish("orders.new", b"x", msg_id="1", headers={"Own": "header"})
    assert (ack.stream, ack.sequence) == ("ORDERS", 1)
    assert stream.published[0].headers == {"Own": "header", "Nats-Msg-Id": "1"}


@pytest.mark.conformance("PUB-03")
async def test_a_publish_is_retried_twice_after_a_quarter_of_a_second(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "503"
    with pytest.raises(NoStreamResponseError):
        await js.publish("orders.new")
    assert [pub.at for pub in stream.published] == [0.0, 0.25, 0.5]
    assert clock.now == 0.5


@pytest.mark.conformance("PUB-03")
@pytest.mark.parametrize(("attempts", "wait"), [(0, 0.25), (1, 3.0), (4, 0.5)])
async def test_retries_and_their_wait_can_be_chosen(
    world: World, stream: StreamScript, clock: Clock, attempts: int, wait: float
) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "503"
    with pytest.raises(NoStreamResponseError):
        await js.publish("orders.new", retry_attempts=attempts, retry_wait=wait)
    assert [pub.at for pub in stream.published] == [wait * number for number in range(attempts + 1)]


async def test_all_attempts_share_the_timeout(world: World, stream: StreamScript, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "503"
    publishing = asyncio.create_task(js.publish("orders.new", timeout=3, retry_attempts=5, retry_wait=1))
    await clock.until(1.5)
    stream.answers = "hold"
    with pytest.raises(PublishTimeoutError, match="no acknowledgement within 3 s"):
        await publishing
    assert clock.now == 3.0
    assert len(stream.published) == 3


@pytest.mark.parametrize("seconds", [None, 2.0])
async def test_a_publish_without_an_answer_times_out(
    world: World, stream: StreamScript, clock: Clock, seconds: float | None
) -> None:
    js = (await world.connect()).jetstream(timeout=7)
    stream.answers = "hold"
    with pytest.raises(PublishTimeoutError):
        await js.publish("orders.new", timeout=seconds)
    assert clock.now == (seconds or 7.0)


async def test_a_status_instead_of_an_acknowledgement_is_an_error(world: World, stream: StreamScript) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "408 What"
    with pytest.raises(StatusError, match="408"):
        await js.publish("orders.new")


async def test_a_publish_in_flight_fails_with_the_session(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "hold"
    publishing = asyncio.create_task(js.publish("orders.new"))
    await clock.until(1)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await publishing
    await clock.until(10)
    assert len(stream.published) == 1


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_publish_can_be_cancelled_anywhere(world: World, stream: StreamScript, moment: Moment) -> None:
    connection = await world.connect()
    js = connection.jetstream()

    async def publish() -> None:
        stream.answers = "503"
        publishing = asyncio.get_running_loop().call_later(0.3, setattr, stream, "answers", "ack")
        try:
            await js.publish("orders.new")
        finally:
            publishing.cancel()

    async def usable() -> None:
        stream.answers = "ack"
        assert (await js.publish("orders.new")).sequence == stream.last
        assert len(connection._core.client.reply_mux) == 0

    assert await cancel_everywhere(publish, usable, moment) == 5
