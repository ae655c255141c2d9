"""Flow control is answered once, after all earlier messages are taken, in every mode of consumption."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import collect, side
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.jetstream import AckPolicy, ConsumerConfig

CHUNK = b"x" * 100_000
REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
COUNT = 60


async def fill(ground: Ground, subject: str, count: int = COUNT, payload: bytes = CHUNK) -> None:
    for _ in range(count - 1):
        await ground.admin.publish(subject, payload)
    await ground.admin.request(subject, payload)


async def stalled(ground: Ground, subscription: Any) -> int:
    """Return the messages that arrived when the server waits for an answer, which is everything that it sent."""
    spy = await ground.spy(subscription.subject)

    def waits() -> bool:
        return any("Nats-Consumer-Stalled" in message.headers for message in spy.messages if message.status)

    await eventually(waits, what="a heartbeat of a stalled consumer")
    sent = (await subscription.consumer_info()).delivered.consumer_sequence
    await eventually(lambda: subscription.delivered == sent, what=f"{sent} messages")
    return int(sent)


@pytest.mark.conformance("FLC-01", "FLC-02", "FLC-05")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_the_server_waits_until_delivered_messages_are_taken(ground: Ground) -> None:
    """R39: flow control is answered in every mode."""
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a")
    spy = await ground.spy("$JS.FC.>")
    subscription = await ground.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=0.1)
    first = await stalled(ground, subscription)
    assert 0 < first < COUNT
    assert await spy.settled() == []
    await collect(subscription, COUNT)
    answers = [message.subject for message in await spy.settled()]
    assert len(answers) == len(set(answers)) > 0
    assert all(message.payload == b"" for message in spy.messages)
    assert (subscription.delivered, subscription.pending_msgs) == (COUNT, 0)


@pytest.mark.conformance("FLC-02")
async def test_r39_a_blocked_callback_delays_the_flow_control_reply(ground: Ground) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a")
    spy = await ground.spy("$JS.FC.>")
    gate = asyncio.Event()
    handled: list[int] = []

    async def handle(message: Msg) -> None:
        await gate.wait()
        handled.append(len(message.payload))

    subscription = await ground.js.subscribe(f"{stream.name}.a", callback=handle, flow_control=True, idle_heartbeat=0.1)
    await stalled(ground, subscription)
    assert await spy.settled() == []
    gate.set()
    await eventually(lambda: len(handled) == COUNT, what="all messages")


@pytest.mark.parametrize("way", ["callback", "next_msg", "iteration"])
async def test_r39_every_mode_gets_all_messages(ground: Ground, way: str) -> None:
    stream = await ground.stream()
    count = 3000
    await fill(ground, f"{stream.name}.a", count, b"x" * 1000)
    spy = await ground.spy("$JS.FC.>")
    seen = 0

    def handle(_message: Msg) -> None:
        nonlocal seen
        seen += 1

    callback = handle if way == "callback" else None
    subscription = await ground.js.subscribe(
        f"{stream.name}.a",
        callback=callback,
        flow_control=True,
        idle_heartbeat=0.2,
        config=ConsumerConfig(ack_policy=AckPolicy.NONE),
    )
    if way == "next_msg":
        seen = len(await collect(subscription, count))
    elif way == "iteration":
        async for _ in subscription:
            seen += 1
            if seen == count:
                break
    await eventually(lambda: seen == count, 20, f"{count} messages")
    assert await spy.settled()
    await subscription.unsubscribe()


@pytest.mark.conformance("FLC-03")
@pytest.mark.profiles
async def test_the_flow_control_reply_is_sent_at_once_if_nothing_is_queued(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=5)
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    await collect(subscription, 2)
    spy = await ground.spy("$JS.FC.>")
    await ground.inject(subscription.subject, REQUEST, reply="$JS.FC.at.once")
    [answer] = await spy.wait(1)  # nobody takes messages meanwhile
    assert (answer.subject, answer.payload) == ("$JS.FC.at.once", b"")
    waiting = asyncio.create_task(subscription.next_msg(10))
    await ground.inject(subscription.subject, REQUEST, reply="$JS.FC.while.waiting")
    await spy.wait(2)
    assert not waiting.done()
    await ground.fill(f"{stream.name}.a", b"3")
    assert (await waiting).payload == b"3"
    assert (subscription.delivered, subscription.pending_msgs) == (3, 0)


@pytest.mark.conformance("FLC-03")
async def test_the_flow_control_reply_is_sent_after_the_queued_messages_are_taken(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=5)
    spy = await ground.spy("$JS.FC.>")
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    await eventually(lambda: subscription.pending_msgs == 2, what="two messages")
    await ground.inject(subscription.subject, REQUEST, reply="$JS.FC.later")
    await ground.fill(f"{stream.name}.a", b"3")
    await eventually(lambda: subscription.pending_msgs == 3, what="a third message, after the request")
    assert (await subscription.next_msg(5)).payload == b"1"
    assert await spy.settled() == []
    assert (await subscription.next_msg(5)).payload == b"2"
    assert [message.subject for message in await spy.wait(1)] == ["$JS.FC.later"]
    assert (await subscription.next_msg(5)).payload == b"3"


@pytest.mark.conformance("FLC-04")
async def test_a_heartbeat_causes_the_reply_to_a_lost_request(ground: Ground) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a")

    def loses(_line: object, content: bytes) -> bool:
        return b"FlowControl Request" in content

    async with Sieve(ground.server.port, loses) as proxy, side(ground, proxy.url) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=0.1)
        assert len(await collect(subscription, COUNT)) == COUNT
        assert proxy.lost > 0
        await subscription.unsubscribe()


@pytest.mark.conformance("FLC-05")
async def test_a_heartbeat_does_not_send_a_queued_reply_earlier(ground: Ground) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a")
    spy = await ground.spy("$JS.FC.>")
    subscription = await ground.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=0.1)
    first = await stalled(ground, subscription)
    beats = await ground.spy(subscription.subject)
    await beats.wait(3)
    assert await spy.settled() == []
    await collect(subscription, first)
    assert len(await spy.wait(1)) == 1
    again = len(beats.messages)
    await eventually(lambda: len(beats.messages) > again, what="the next window")
    assert len({message.subject for message in await spy.settled()}) == len(spy.messages)


@pytest.mark.conformance("QUE-02")
async def test_a_queue_subscription_uses_no_flow_control_and_no_heartbeats(ground: Ground) -> None:
    stream = await ground.stream()
    spy = await ground.spy("$JS.FC.>")
    async with side(ground) as own:
        member = await own.js.subscribe(f"{stream.name}.a", "q")
        await ground.inject(member.subject, REQUEST, reply="$JS.FC.forged")
        await ground.inject(member.subject, b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 9\r\n\r\n")
        await ground.fill(f"{stream.name}.a", b"1")
        assert (await member.next_msg(5)).payload == b"1"
        await own.nc.flush()
        assert await spy.settled() == []
        await eventually(lambda: own.events.names, what="an event")  # events are reported on their own thread
        assert own.events.names == ["Connected"]
        await member.unsubscribe()
