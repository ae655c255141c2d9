"""Messages that are read directly, one or many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Pub
from tests.driver.jetstream import SILENCE, JetStreamScript
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import Stream
from jetspark.aio.jetstream.requests import ReplyStream
from jetspark.errors import (
    NoDirectGetError,
    RequestTimeoutError,
)


class Replica:
    """Answers direct gets of batches."""

    def __init__(self, script: JetStreamScript, count: int) -> None:
        self.count = count
        self.asked: list[Pub] = []
        self.cut_at = 0
        """Sequence at which the answer to the first request stops."""
        script.server.on("$JS.API.DIRECT.GET.ORDERS", self._answer)

    def _answer(self, session: Session, pub: Pub) -> None:
        self.asked.append(pub)
        first = max(pub.json.get("seq", 1), 1)
        last = min(first + pub.json["batch"] - 1, self.count)
        for sequence in range(first, last + 1):
            headers = {
                "Nats-Stream": "ORDERS",
                "Nats-Subject": "orders.a",
                "Nats-Sequence": str(sequence),
                "Nats-Time-Stamp": "2026-01-02T03:04:05Z",
                "Nats-Num-Pending": str(self.count - sequence),
                "Nats-Last-Sequence": str(sequence - 1 if sequence > first else 0),
            }
            session.deliver(pub.reply, b"%d" % sequence, headers=headers)
            if sequence == self.cut_at and len(self.asked) == 1:
                return
        end = {"Nats-Num-Pending": str(self.count - last), "Nats-Last-Sequence": str(last)}
        session.deliver(pub.reply, status="204 EOB", headers=end)


async def opened(world: World) -> Stream:
    """Connect, and get the handle of the stream."""
    return await (await world.connect()).jetstream().stream("ORDERS")


async def read(stream: Stream, seconds: float = 5.0) -> list[bytes]:
    """The payloads of all messages."""
    return [message.payload async for message in stream.get_batch(timeout=seconds)]


@pytest.mark.usefixtures("stream")
async def test_pages_follow_one_another_until_the_end(world: World, script: JetStreamScript, clock: Clock) -> None:
    replica = Replica(script, 2500)
    assert len(await read(await opened(world))) == 2500
    assert [pub.json.get("seq") for pub in replica.asked] == [1, 1001, 2001]
    assert clock.now == 0.0


@pytest.mark.usefixtures("stream")
async def test_an_interrupted_answer_is_requested_again_after_a_timeout(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    replica = Replica(script, 10)
    replica.cut_at = 4
    assert await read(await opened(world), 3) == [b"%d" % number for number in range(1, 11)]
    assert [(pub.at, pub.json.get("seq")) for pub in replica.asked] == [(0.0, 1), (3.0, 5)]


@pytest.mark.usefixtures("stream")
async def test_an_answer_interrupted_by_a_lost_session_is_requested_in_the_next(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    replica = Replica(script, 10)
    replica.cut_at = 4
    reading = asyncio.create_task(read(await opened(world), 30))
    await clock.until(1)
    server.session.reset()
    assert await reading == [b"%d" % number for number in range(1, 11)]
    assert [(pub.at, pub.json.get("seq")) for pub in replica.asked] == [(0.0, 1), (1.0, 5)]


@pytest.mark.usefixtures("stream")
async def test_a_server_that_is_silent_twice_is_an_error(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.answer("DIRECT.GET.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await read(await opened(world), 3)
    assert len(script.asked("DIRECT.GET.ORDERS")) == 2
    assert clock.now == 6.0


@pytest.mark.usefixtures("stream")
async def test_a_stream_without_direct_get_is_reported_at_once(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("DIRECT.GET.>", "503")
    with pytest.raises(NoDirectGetError):
        await read(await opened(world))
    assert clock.now == 0.0


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_read_that_is_cancelled_anywhere_leaves_no_subscription(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    stream = await opened(world)
    Replica(script, 1500)

    async def run() -> None:
        assert len(await read(stream, 3)) == 1500

    async def check() -> None:
        await clock.settle()
        assert len(server.session.subjects) == 1  # the inbox of the requests

    assert await cancel_everywhere(run, check, moment) >= 2


STORED = {
    "Nats-Stream": "ORDERS",
    "Nats-Subject": "orders.a",
    "Nats-Sequence": "7",
    "Nats-Time-Stamp": "2026-01-02T03:04:05Z",
}


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(
    ("choice", "endpoint", "asked"),
    [
        ({"sequence": 7}, "", {"seq": 7}),
        ({"last_by_subject": "orders.*"}, "", {"last_by_subj": "orders.*"}),
        ({"last_by_subject": "orders.a"}, ".orders.a", {}),
        ({"next_by_subject": "orders.a", "sequence": 3}, "", {"seq": 3, "next_by_subj": "orders.a"}),
    ],
)
async def test_a_message_is_read_from_any_replica(
    world: World, server: MemoryServer, choice: dict[str, Any], endpoint: str, asked: dict[str, Any]
) -> None:
    pubs: list[Pub] = []

    def answer(session: Session, pub: Pub) -> None:
        pubs.append(pub)
        session.deliver(pub.reply, b"1", headers=STORED)

    server.on(f"$JS.API.DIRECT.GET.ORDERS{endpoint}", answer)
    message = await (await opened(world)).get_msg(direct=True, **choice)
    assert (message.sequence, message.subject, message.payload) == (7, "orders.a", b"1")
    assert [pub.json for pub in pubs] == [asked]


@pytest.mark.usefixtures("stream")
async def test_a_message_is_read_from_the_leader_unless_the_stream_allows_direct_get(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    stored = {"subject": "orders.a", "seq": 7, "data": "MQ==", "time": "2026-01-02T03:04:05Z"}
    script.answer("STREAM.MSG.GET.ORDERS", {"message": stored})
    script.answer("DIRECT.GET.>", "503")
    stream = await opened(world)
    message = await stream.get_last_msg("orders.a")
    assert (message.sequence, message.payload) == (7, b"1")
    assert [pub.json for pub in script.asked("STREAM.MSG.GET.ORDERS")] == [{"last_by_subj": "orders.a"}]
    with pytest.raises(NoDirectGetError):
        await stream.get_last_msg("orders.a", direct=True)
    allowed = {**script.streams["ORDERS"].info, "config": {"name": "ORDERS", "allow_direct": True}}
    script.answer("STREAM.INFO.>", allowed)
    await stream.info()
    assert (await stream.get_msg(7)).sequence == 7  # nobody answers the direct get, so the leader is asked
    assert len(script.asked("STREAM.MSG.GET.ORDERS")) == 2
    script.answer("DIRECT.GET.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await stream.get_msg(7, timeout=3)
    assert clock.now == 3.0


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("subjects", ["orders.>", ["orders.a", "orders.b"]])
async def test_the_last_messages_of_subjects_are_read(
    world: World, server: MemoryServer, subjects: str | list[str]
) -> None:
    pubs: list[Pub] = []

    def answer(session: Session, pub: Pub) -> None:
        pubs.append(pub)
        session.deliver(pub.reply, b"1", headers={**STORED, "Nats-Num-Pending": "0", "Nats-Last-Sequence": "0"})
        end = {"Nats-Num-Pending": "0", "Nats-Last-Sequence": "7", "Nats-UpTo-Sequence": "9"}
        session.deliver(pub.reply, status="204 EOB", headers=end)

    server.on("$JS.API.DIRECT.GET.ORDERS", answer)
    messages = await (await opened(world)).get_last_msgs_for(subjects, up_to_sequence=9).all()
    assert [message.sequence for message in messages] == [7]
    wanted = [subjects] if isinstance(subjects, str) else subjects
    assert [(pub.json["multi_last"], pub.json["up_to_seq"]) for pub in pubs] == [(wanted, 9)]


async def test_answers_to_an_earlier_request_do_not_count(world: World, server: MemoryServer) -> None:
    def answer(session: Session, pub: Pub) -> None:
        session.deliver(pub.reply, pub.payload)
        session.deliver(pub.reply, pub.payload)

    server.on("question", answer)
    replies = ReplyStream((await world.connect())._core)
    for number in (b"1", b"2"):
        replies.request("question", number)
        assert replies.available == 0
        assert (await replies.next(1)).payload == number
        assert replies.available == 1
    replies.close()
