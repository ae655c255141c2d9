"""Reads of an object through late replicas, silence, lost sessions and cancellation."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Pub
from tests.driver.jetstream import SILENCE, Answer, JetStreamScript, Pull
from tests.driver.reading import alive, starts
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import ObjectStore
from jetspark.errors import ObjectChangedError, ObjectIncompleteError, RequestTimeoutError
from jetspark.jetstream.object_store.info import digest_text
from jetspark.jetstream.object_store.names import meta_subject

CONTENT = b"1234"
"""Four chunks of a byte: the payload of a message is its sequence."""


class Store:
    """The server of a bucket with an object `x`.

    Attributes
    ----------
    pending
        Number of chunks that each new consumer has; the last number is repeated.
    delivered
        Number of chunks that each new consumer delivers; the last number is repeated.
    stored
        Number of chunks that the leader has.
    """

    def __init__(
        self, script: JetStreamScript, *, pending: tuple[int, ...] = (4,), delivered: tuple[int, ...] = (4,)
    ) -> None:
        self.nuid = "N"
        self.stored = 4
        self._pending, self._delivered = list(pending), list(delivered)
        self._script = script
        script.answer("STREAM.INFO.OBJ_B", self._info)
        script.answer("STREAM.MSG.GET.OBJ_B", self._meta)
        script.answer("CONSUMER.CREATE.>", self._create)
        script.server.on("$JS.API.CONSUMER.MSG.NEXT.>", self._deliver)

    def _info(self, pub: Pub) -> Answer:
        return {
            "config": {"name": "OBJ_B", "subjects": ["$O.B.C.>", "$O.B.M.>"]},
            "created": "2026-01-02T03:04:05Z",
            "state": {"messages": 5, "first_seq": 1, "last_seq": 5, "subjects": {"$O.B.C.N": self.stored}},
        }

    def _meta(self, pub: Pub) -> Answer:
        digest = digest_text(hashlib.sha256(CONTENT).digest())
        fields = {"name": "x", "bucket": "B", "nuid": self.nuid, "size": 4, "chunks": 4, "digest": digest}
        data = b64encode(json.dumps(fields).encode()).decode()
        subject = meta_subject("$O.B.", "x")
        return {"message": {"subject": subject, "seq": 5, "data": data, "time": "2026-01-02T03:04:05Z"}}

    def _create(self, pub: Pub) -> Answer:
        made = self._script.make(pub)
        assert isinstance(made, dict)
        return {**made, "num_pending": self._next(self._pending)}

    def _deliver(self, session: Session, pub: Pub) -> None:
        consumer = self._script.consumers[pub.subject.rpartition(".")[2]]
        consumer.pulls.append(Pull(consumer, session, pub))
        if not consumer.consumer_sequence:
            for _ in range(self._next(self._delivered) - consumer.stream_sequence):
                left = 3 - consumer.stream_sequence
                payload = b"%d" % (consumer.stream_sequence + 1)
                consumer.send(session, pub.reply, payload, subject="$O.B.C.N", pending=left)

    @staticmethod
    def _next(numbers: list[int]) -> int:
        return numbers.pop(0) if len(numbers) > 1 else numbers[0]


async def opened(world: World) -> ObjectStore:
    return await (await world.connect(reconnect_wait=0.5)).jetstream().object_store("B")


@pytest.mark.conformance("OBJ-15")
async def test_a_late_replica_is_asked_again(world: World, script: JetStreamScript, clock: Clock) -> None:
    Store(script, pending=(0, 3, 4), delivered=(0, 3, 4))
    store = await opened(world)
    assert await store.get_bytes("x") == CONTENT
    assert clock.now == 0.5
    await clock.settle()
    assert alive(script) == []


@pytest.mark.conformance("OBJ-15")
async def test_a_replica_that_stays_late_is_given_up(world: World, script: JetStreamScript, clock: Clock) -> None:
    Store(script, pending=(0,), delivered=(0,))
    with pytest.raises(RequestTimeoutError, match="replica"):
        await (await opened(world)).get_bytes("x", timeout=3)
    assert clock.now == 3.0


@pytest.mark.conformance("OBJ-15", "OBJ-16")
async def test_a_damaged_object_and_a_replaced_one_are_different_errors(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    server = Store(script, pending=(4,), delivered=(2,))
    store = await opened(world)
    reader = await store.get("x")
    assert await reader.read(2) == b"12"
    server.stored = 2
    script.answer("CONSUMER.INFO.>", lambda _: {**script.created[-1].info, "num_pending": 0})
    waiting = asyncio.create_task(reader.read())
    await clock.settle()
    script.created[-1].pull.heartbeat()
    with pytest.raises(ObjectIncompleteError, match="2 of its 4 chunks"):
        await waiting
    reader = await store.get("x")
    server.nuid = "M"
    waiting = asyncio.create_task(reader.read())
    await clock.settle()
    script.created[-1].pull.heartbeat()
    with pytest.raises(ObjectChangedError, match="replaced"):
        await waiting
    await clock.settle()
    assert (alive(script), clock.now) == ([], 0.0)


async def test_a_server_that_delivers_nothing_is_given_up(world: World, script: JetStreamScript, clock: Clock) -> None:
    Store(script, delivered=(0,))
    script.answer("CONSUMER.INFO.>", SILENCE)
    with pytest.raises(RequestTimeoutError, match=r"no chunk came for 1\.5 s"):
        await (await opened(world)).get_bytes("x", timeout=1.5)
    await clock.settle()
    assert (alive(script), clock.now) == ([], 1.5)


async def test_a_read_continues_after_the_last_chunk_in_the_next_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    Store(script, delivered=(2, 4), pending=(4, 2))
    reader = await (await opened(world)).get("x")
    server.session.reset()
    assert await reader.read() == CONTENT
    assert starts(script) == [None, 3]
    await clock.settle()
    assert alive(script) == []


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_read_that_is_cancelled_anywhere_leaves_no_consumer(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    Store(script)
    store = await opened(world)

    async def run() -> None:
        assert await store.get_bytes("x") == CONTENT

    async def check() -> None:
        await clock.settle()
        assert len(server.session.subjects) == 1  # the inbox of the requests
        assert alive(script) == []

    assert await cancel_everywhere(run, check, moment) >= 3


async def test_a_cancelled_read_of_a_part_loses_nothing(world: World, script: JetStreamScript, clock: Clock) -> None:
    Store(script, delivered=(2,))
    reader = await (await opened(world)).get("x")
    reading = asyncio.create_task(reader.read(3))
    await clock.settle()
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    script.created[-1].pull.deliver(b"3", b"4", subject="$O.B.C.N")
    assert await reader.read() == CONTENT
    assert len(script.created) == 1
