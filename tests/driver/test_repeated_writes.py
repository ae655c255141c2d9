"""Writes of keys and counters whose answer is lost: repeated with the same message id, or raised."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.driver.frames import Pub
from tests.driver.jetstream import SILENCE, JetStreamScript, refusal
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import Counter, KeyValue
from jetspark.errors import KeyExistsError, PublishTimeoutError, WrongLastRevisionError

WRONG = refusal(400, 10071, "wrong last sequence: 7")
TIME = "2026-01-02T03:04:05Z"


class Writes:
    """Answers publishes, one after the other; the last answer is for all that follow."""

    def __init__(self, server: MemoryServer, subject: str) -> None:
        self.answers: Iterator[Mapping[str, Any] | str] = iter(())
        self.published: list[Pub] = []
        server.on(subject, self._take)

    def _take(self, session: Session, pub: Pub) -> None:
        self.published.append(pub)
        answer = next(self.answers)
        if answer != SILENCE:
            session.deliver(pub.reply, json.dumps(answer).encode())

    @property
    def ids(self) -> list[str | None]:
        return [pub.headers.get("Nats-Msg-Id") for pub in self.published]

    @property
    def expected(self) -> list[str | None]:
        return [pub.headers.get("Nats-Expected-Last-Subject-Sequence") for pub in self.published]


def info(name: str, **config: Any) -> dict[str, Any]:
    return {"config": {"name": name, **config}, "created": TIME, "state": {"messages": 0}}


def stored(sequence: int, headers: str = "", payload: bytes = b"") -> dict[str, Any]:
    block = base64.b64encode(f"NATS/1.0\r\n{headers}\r\n".encode()).decode()
    data = base64.b64encode(payload).decode()
    return {"message": {"subject": "$KV.B.k", "seq": sequence, "time": TIME, "hdrs": block, "data": data}}


@pytest.fixture
def writes(server: MemoryServer) -> Writes:
    return Writes(server, "$KV.B.>")


@pytest.fixture
async def bucket(world: World, script: JetStreamScript) -> KeyValue:
    config = {"subjects": ["$KV.B.>"], "max_msgs_per_subject": 1, "allow_direct": True}
    script.answer("STREAM.INFO.KV_B", info("KV_B", **config))
    return await (await world.connect()).jetstream(timeout=2.0).key_value("B")


@pytest.mark.conformance("KVS-31")
async def test_put_and_delete_are_sent_once(bucket: KeyValue, writes: Writes, clock: Clock) -> None:
    writes.answers = iter([SILENCE] * 4)
    for call in (bucket.put("k", b"1"), bucket.delete("k"), bucket.delete("k", revision=3), bucket.purge("k")):
        began = clock.now
        with pytest.raises(PublishTimeoutError):
            await call
        assert clock.now == began + 2.0
    assert writes.ids == [None] * 4


@pytest.mark.conformance("KVS-31")
async def test_create_and_update_are_repeated_once_within_the_timeout(
    bucket: KeyValue, writes: Writes, clock: Clock
) -> None:
    writes.answers = iter([SILENCE, SILENCE])
    with pytest.raises(PublishTimeoutError):
        await bucket.create("k", b"1")
    assert clock.now == 2.0
    assert [pub.at for pub in writes.published] == [0.0, 1.0]
    first, second = writes.ids
    assert first == second
    assert first
    writes.answers = iter([SILENCE, {"stream": "KV_B", "seq": 4, "duplicate": True}])
    assert await bucket.update("k", b"1", 3) == 4
    assert clock.now == 3.0


@pytest.mark.conformance("KVS-26", "KVS-28", "KVS-31")
async def test_a_refused_write_asks_the_leader_for_the_newest_entry(
    bucket: KeyValue, writes: Writes, script: JetStreamScript
) -> None:
    script.answer("STREAM.MSG.GET.KV_B", stored(7, "KV-Operation: DEL\r\n"))
    writes.answers = iter([WRONG, {"stream": "KV_B", "seq": 8}])
    assert await bucket.create("k", b"1") == 8
    assert writes.expected == ["0", "7"]
    assert len(set(writes.ids)) == 2
    script.answer("STREAM.MSG.GET.KV_B", stored(7, payload=b"secret"))
    writes.answers = iter([WRONG, WRONG])
    with pytest.raises(KeyExistsError) as exists:
        await bucket.create("k", b"1")
    assert (exists.value.actual, "secret" in str(exists.value)) == (7, False)
    with pytest.raises(WrongLastRevisionError) as wrong:
        await bucket.update("k", b"1", 3)
    assert (wrong.value.expected, wrong.value.actual) == (3, 7)


@pytest.mark.conformance("CNT-03")
async def test_an_addition_is_repeated_once_and_counts_once(
    world: World, script: JetStreamScript, server: MemoryServer, clock: Clock
) -> None:
    script.answer("STREAM.INFO.C", info("C", subjects=["c.*"], allow_msg_counter=True, allow_direct=True))
    counter: Counter = await (await world.connect()).jetstream(timeout=2.0).counter("C")
    additions = Writes(server, "c.*")
    additions.answers = iter([SILENCE, {"stream": "C", "seq": 4, "duplicate": True}])
    answer = stored(4, "Nats-Incr: +5\r\n", b'{"val":"12"}')
    answer["message"]["subject"] = "c.a"
    script.answer("STREAM.MSG.GET.C", answer)
    assert await counter.add("c.a", 5) == 12
    assert clock.now == 1.0
    first, second = additions.ids
    assert first == second
    assert first
    assert [pub.headers["Nats-Incr"] for pub in additions.published] == ["+5", "+5"]
