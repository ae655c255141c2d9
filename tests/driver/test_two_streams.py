"""Two streams on one subject (a hub and a leaf): which answer counts, with and without the stream's name."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.driver.jetstream import StreamScript
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import InvalidAckError, StreamStoreFailedError, WrongStreamError
from jetspark.jetstream import PubAck

KINDS = ["publish", "publish_async"]


async def publish(world: World, kind: str) -> asyncio.Task[PubAck]:
    """Start a publish that names its stream."""
    js = await world.jetstream()

    async def run() -> PubAck:
        if kind == "publish":
            return await js.publish("orders.new", b"x", expected_stream="ORDERS", timeout=10)
        return await (await js.publish_async("orders.new", b"x", expected_stream="ORDERS"))

    return asyncio.create_task(run())


def answer(stream: StreamScript, name: str, sequence: int = 1) -> None:
    stream.answer(json.dumps({"stream": name, "seq": sequence}).encode())


def refuse(stream: StreamScript, name: str, err_code: int = 10060) -> None:
    error = {"code": 400, "err_code": err_code, "description": "no"}
    stream.answer(json.dumps({"error": error, "stream": name, "seq": 0}).encode())


@pytest.mark.parametrize("kind", KINDS)
async def test_the_refusal_of_another_stream_does_not_settle_a_publish_that_names_its_stream(
    world: World, stream: StreamScript, clock: Clock, kind: str
) -> None:
    stream.answers = "hold"
    task = await publish(world, kind)
    await clock.settle()
    refuse(stream, "LEAF")
    await clock.until(0.5)
    assert not task.done()
    answer(stream, "ORDERS", 7)
    assert (await task).sequence == 7


@pytest.mark.parametrize("kind", KINDS)
async def test_the_refusal_of_another_stream_counts_if_the_named_one_is_silent_for_a_second(
    world: World, stream: StreamScript, clock: Clock, kind: str
) -> None:
    stream.answers = "hold"
    task = await publish(world, kind)
    await clock.settle()
    refuse(stream, "LEAF")
    with pytest.raises(WrongStreamError):
        await task
    assert clock.now == 1.0


@pytest.mark.parametrize("kind", KINDS)
async def test_an_acknowledgement_of_another_stream_than_the_named_one_is_an_error(
    world: World, stream: StreamScript, clock: Clock, kind: str
) -> None:
    stream.answers = "hold"
    task = await publish(world, kind)
    await clock.settle()
    answer(stream, "LEAF")
    with pytest.raises(InvalidAckError, match="stream 'LEAF' has answered, not the expected 'ORDERS'"):
        await task
    assert clock.now == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_the_refusal_of_the_named_stream_counts_at_once(
    world: World, stream: StreamScript, clock: Clock, kind: str
) -> None:
    stream.answers = "hold"
    task = await publish(world, kind)
    await clock.settle()
    refuse(stream, "ORDERS", 10077)
    with pytest.raises(StreamStoreFailedError):
        await task
    assert clock.now == 0


async def test_a_second_answer_to_a_publish_is_no_answer_to_another_one(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    first = await js.publish_async("orders.new", b"1")
    second = await js.publish_async("orders.new", b"2")
    await clock.settle()
    for _ in range(3):
        stream.ack(0)
    await clock.settle()
    assert (first.done(), second.done()) == (True, False)
    assert (js.publish_async_stats.acknowledged, js.publish_async_stats.unmatched_acks) == (1, 2)
    stream.ack(1)
    assert (await second).stream == "ORDERS"


@pytest.mark.parametrize("sequence", [0, -3])
async def test_an_acknowledgement_without_a_sequence_is_counted_as_failed(
    world: World, stream: StreamScript, clock: Clock, sequence: int
) -> None:
    js = await world.jetstream()
    await (await js.publish_async("orders.new", b"learn the form"))
    stream.answers = "hold"
    future = await js.publish_async("orders.new", b"1")
    await clock.settle()
    answer(stream, "ORDERS", sequence)
    await clock.settle()
    assert isinstance(future.exception(), InvalidAckError)
    assert (js.publish_async_stats.failed, js.publish_async_stats.acknowledged) == (1, 1)
