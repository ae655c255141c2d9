"""Tests of priority groups on real servers, on both fronts (ADR-42)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    PINNED,
    Warnings,
    consumer_of,
    numbered,
    payloads,
    pull_bodies,
    spy_on_pulls,
    take,
    wait_for_open_pulls,
)
from tests.fronts import Ground

from jetspark.errors import (
    APIError,
    BadPullRequestError,
    ConfigError,
    ConsumerNotFoundError,
    InvalidPriorityGroupError,
)

OVERFLOW: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "overflow"}
PRIORITIZED: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "prioritized"}


@pytest.mark.conformance("PRI-01")
async def test_groups_are_part_of_the_configuration(ground: Ground) -> None:
    consumer = await consumer_of(ground, **PINNED)
    config = (await consumer.info()).config
    assert (config.priority_groups, config.priority_policy) == (["g"], "pinned_client")
    assert config.priority_timeout == timedelta(minutes=2)
    for fields, code in (
        ({"priority_policy": "pinned_client"}, 10159),
        ({"priority_groups": ["g"], "priority_policy": "none"}, 10196),
        ({"priority_groups": ["g" * 17], "priority_policy": "overflow"}, 10162),
        ({**OVERFLOW, "deliver_subject": "there"}, 10178),
    ):
        with pytest.raises(APIError) as caught:
            await ground.js.create_consumer(consumer.stream_name, **fields)
        assert caught.value.err_code == code, fields


@pytest.mark.conformance("PRI-02")
@pytest.mark.blocking
async def test_each_pull_names_its_group(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, **OVERFLOW)
    spy = await spy_on_pulls(ground)
    for call in (consumer.fetch(1), consumer.next(1), consumer.fetch_no_wait(1), consumer.fetch(1, group="other")):
        with pytest.raises(ConfigError, match="priority group"):
            await call
    with pytest.raises(ConfigError, match="priority group"):
        consumer.consume()
    assert await spy.settled() == []
    await consumer.fetch(1, group="g")
    await consumer.next(group="g")
    async with consumer.consume(group="g") as messages:
        await take(messages, 1)
    await spy.settled()
    assert [body["group"] for body in pull_bodies(spy)] == ["g", "g", "g"]
    plain = await consumer_of(ground)
    with pytest.raises(ConfigError, match="it has none"):
        await plain.fetch(1, group="g")


@pytest.mark.conformance("PRI-02")
async def test_a_refusal_of_the_server_is_raised_if_the_groups_are_not_known(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, **OVERFLOW)
    consumer.cached_info.config.priority_groups = None
    with pytest.raises(BadPullRequestError, match="Priority Group missing"):
        await consumer.fetch(1)


@pytest.mark.conformance("PRI-03")
async def test_overflow_delivers_when_one_of_its_conditions_holds(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=4, **OVERFLOW)
    assert await consumer.fetch(1, group="g", min_pending=10, timeout=0.1) == []
    assert await consumer.fetch(1, group="g", min_pending=10, min_ack_pending=1, timeout=0.1) == []
    assert len(await consumer.fetch(1, group="g", min_pending=4, timeout=5)) == 1
    assert len(await consumer.fetch(1, group="g", min_pending=100, min_ack_pending=1, timeout=5)) == 1
    other = await consumer_of(ground, messages=1, **PINNED)
    with pytest.raises(BadPullRequestError, match="Overflow"):
        await other.fetch(1, group="g", min_pending=1)


@pytest.mark.conformance("PRI-04")
async def test_the_client_with_the_lower_priority_number_is_served_first(ground: Ground) -> None:
    consumer = await consumer_of(ground, **PRIORITIZED)
    later = asyncio.create_task(consumer.fetch(1, group="g", priority=9, timeout=10))
    await wait_for_open_pulls(ground, consumer, 1)
    spy = await spy_on_pulls(ground)
    sooner = asyncio.create_task(consumer.fetch(1, group="g", priority=0, timeout=10))
    await wait_for_open_pulls(ground, consumer, 2)
    await ground.fill(f"{consumer.stream_name}.a", b"0")
    assert payloads(await sooner) == [b"0"]
    await ground.fill(f"{consumer.stream_name}.a", b"1")
    assert payloads(await later) == [b"1"]
    assert pull_bodies(spy)[0]["priority"] == 0
    with pytest.raises(ConfigError, match="priority"):
        await consumer.fetch(1, group="g", priority=10)


@pytest.mark.conformance("PRI-05")
async def test_the_id_of_a_pinned_client_is_kept_by_its_handle(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=6, **PINNED)
    spy = await spy_on_pulls(ground)
    first = await consumer.next(group="g")
    pin = first.headers["Nats-Pin-Id"]
    await consumer.fetch(2, group="g")
    async with consumer.consume(group="g", max_messages=2) as messages:
        await take(messages, 3)
    await spy.settled()
    bodies = pull_bodies(spy)
    assert "id" not in bodies[0]
    assert len(bodies) >= 4
    assert {body["id"] for body in bodies[1:]} == {pin}
    info = await consumer.info()
    assert info.priority_groups is not None
    assert info.priority_groups[0].pinned_client_id == pin


@pytest.mark.conformance("PRI-06")
@pytest.mark.profiles
async def test_r12_an_unpinned_client_drops_its_id_and_pulls_again_at_once(ground: Ground) -> None:
    """Both clients pull again at once after the 423, without an id, and lose nothing (R12)."""
    first = await consumer_of(ground, **PINNED)
    second = await ground.js.consumer(first.stream_name, first.name)
    subject = f"{first.stream_name}.a"
    reported = Warnings()
    seen: list[bytes] = []

    async def read(context: Any) -> None:
        async for message in context:
            seen.append(message.payload)  # noqa: PERF401 - others look at it meanwhile

    async with (
        first.consume(group="g", max_messages=2, on_error=reported.add) as one,
        second.consume(group="g", max_messages=2, on_error=reported.add) as two,
    ):
        readers = [asyncio.create_task(read(context)) for context in (one, two)]
        for number in range(6):
            await ground.fill(subject, b"%d" % number)
            deadline = asyncio.get_running_loop().time() + 10
            while len(seen) <= number:
                assert asyncio.get_running_loop().time() < deadline, "nobody got it"
                await asyncio.sleep(0.005)
            await ground.admin_js.unpin_consumer(first.stream_name, first.name, "g")
    for reader in readers:
        await reader
    assert seen == numbered(0, 6)
    assert reported.errors == []


@pytest.mark.conformance("PRI-06")
async def test_a_waiting_client_takes_over_when_the_pinned_one_is_gone(ground: Ground) -> None:
    first = await consumer_of(ground, messages=1, priority_timeout=timedelta(seconds=1.5), **PINNED)
    second = await ground.js.consumer(first.stream_name, first.name)
    reported = Warnings()
    async with first.consume(group="g") as pinned:
        assert payloads(await take(pinned, 1)) == [b"0"]
        async with second.consume(group="g", on_error=reported.add) as other:
            taken = asyncio.create_task(take(other, 1))
            await ground.nc.flush()
            await ground.fill(f"{first.stream_name}.a", b"1")
            assert payloads(await take(pinned, 1)) == [b"1"]
            assert not taken.done()
            await pinned.stop()
            await ground.nc.flush()
            await ground.fill(f"{first.stream_name}.a", b"2")
            assert payloads(await taken) == [b"2"]
    assert reported.errors == []


@pytest.mark.conformance("PRI-07")
async def test_unpin_releases_the_pinned_client(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, **PINNED)
    await consumer.next(group="g")
    [state] = (await consumer.info()).priority_groups or []
    assert state.group == "g"
    assert state.pinned_client_id
    assert state.pinned_ts is not None
    await consumer.unpin("g")
    [state] = (await consumer.info()).priority_groups or []
    assert state.pinned_client_id == ""
    with pytest.raises(InvalidPriorityGroupError):
        await consumer.unpin("other")
    await consumer.delete()
    with pytest.raises(ConsumerNotFoundError):
        await consumer.unpin("g")
