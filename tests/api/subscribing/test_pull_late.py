"""A message that is too late for its fetch goes to a waiting fetch, up to its limit, or to the next one."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.consuming.support import payloads
from tests.api.sieve import Sieve
from tests.api.subscribing.support import Side, open_pulls
from tests.fronts import Ground, eventually

from jetspark.aio.jetstream import PullSubscription
from jetspark.engine import pull_subscribe
from jetspark.jetstream import ConsumerConfig

pytestmark = pytest.mark.parametrize("front", ["aio"], indirect=True)  # a blocking call is not cancelled from outside

PULLS = "$JS.API.CONSUMER.MSG.NEXT.>"


async def subscribe(own: Side, name: str, max_ack_pending: int | None = None) -> PullSubscription:
    config = ConsumerConfig(max_ack_pending=max_ack_pending)
    return await own.js.pull_subscribe(f"{name}.a", "d", config=config)


async def cancel_too_late(ground: Ground, sieve: Sieve, subscription: PullSubscription) -> None:
    """Cancel a fetch whose message, `1`, is in flight. It is held back with all later data of the server."""
    cancelled = asyncio.create_task(subscription.fetch(1, 30))
    await open_pulls(subscription, 1)
    sieve.hold()
    await ground.fill(f"{subscription.stream}.a", b"1")
    await eventually(lambda: sieve.held, what="a message on its way")
    cancelled.cancel()
    await asyncio.wait([cancelled])


@pytest.mark.conformance("PUL-07")
@pytest.mark.parametrize("batch", [1, 5])
async def test_a_waiting_fetch_gets_late_messages_of_another(
    ground: Ground, sieve: Sieve, own: Side, batch: int
) -> None:
    subscription = await subscribe(own, (await ground.stream()).name)
    await cancel_too_late(ground, sieve, subscription)
    spy = await ground.spy(PULLS)
    fetching = asyncio.create_task(subscription.fetch(batch, None))
    await spy.wait(1)
    sieve.release()
    async with asyncio.timeout(10):
        assert payloads(await fetching) == [b"1"]


@pytest.mark.conformance("PUL-07")
async def test_a_waiting_fetch_gets_messages_of_a_cancelled_one(
    ground: Ground, own: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_subscribe, "_IDLE_TIMEOUT", 30.0)  # so that the first fetch waits for more
    stream = await ground.stream()
    subscription = await subscribe(own, stream.name, max_ack_pending=1)
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    first = asyncio.create_task(subscription.fetch(5, 30))

    async def delivered() -> bool:
        return (await subscription.consumer_info()).num_ack_pending == 1

    await eventually(delivered, what="the message that the first one takes")
    second = asyncio.create_task(subscription.fetch(1, None))
    await open_pulls(subscription, 2)
    first.cancel()
    async with asyncio.timeout(10):
        assert payloads(await second) == [b"1"]


@pytest.mark.conformance("PUL-07")
async def test_a_fetch_gets_no_more_than_its_batch_and_the_next_one_gets_the_rest(
    ground: Ground, sieve: Sieve, own: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_subscribe, "_IDLE_TIMEOUT", 30.0)  # so that it waits for more
    stream = await ground.stream()
    subscription = await subscribe(own, stream.name, max_ack_pending=2)
    await cancel_too_late(ground, sieve, subscription)
    await ground.fill(f"{stream.name}.a", b"2", b"3", b"4")
    fetching = asyncio.create_task(subscription.fetch(3, 30))
    await eventually(lambda: len(sieve.held) == 2, what="a message of its own, and no more may be unacknowledged")
    sieve.release()
    config = (await subscription.consumer_info()).config.replace(max_ack_pending=10)
    sieve.hold()
    await ground.js.update_consumer(stream.name, config)  # now its own pull of three messages continues
    await eventually(lambda: len(sieve.held) == 2, what="two more of its own")
    sieve.release()
    assert payloads(await fetching) == [b"2", b"1", b"3"]
    assert payloads(await subscription.fetch(5)) == [b"4"]
