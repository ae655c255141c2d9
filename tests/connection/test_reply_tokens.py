"""Reply subjects of every front cannot be predicted from another, and an answer to a wrong one is dropped.

A subscriber to everything sees the reply subjects of all requests, as a user of the same account may.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest
from tests.answering_server import Answer, AnsweringServer, Published, ack

from jetspark import aio, bulk, sync
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest, StreamNamesRequest
from jetspark.server import NatsServer

_STREAM = StreamConfig(name="S", subjects=["s.>"], allow_direct=True, allow_atomic=True)
_RANDOM = re.compile(r"[A-Za-z0-9_-]{11}$|[0-9a-f]{22}$")


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


async def use_aio(url: str) -> None:
    async with await aio.connect(url) as connection:
        js = connection.jetstream()
        stream = await js.stream("S")
        for _ in range(3):
            await js.publish("s.a", b"x")
            await (await js.publish_async("s.a", b"x"))
            await stream.info()
            await stream.get_msg(1)
            await stream.get_msg(1, direct=False)
            [_ async for _ in stream.get_batch(2)]
            [_ async for _ in stream.get_last_msgs_for("s.*")]
            [_ async for _ in js.stream_names()]
            async with js.atomic_batch() as batch:
                await batch.add("s.a", b"x")
                await batch.add("s.a", b"x", confirm=True)
        consumer = await stream.create_consumer(name="A")
        for _ in range(3):
            await consumer.fetch(1, timeout=1)
            await consumer.next(timeout=1)
        pulled = await js.pull_subscribe("s.a", durable="P")
        for _ in range(3):
            await pulled.fetch(1, timeout=1)
        ordered = stream.ordered_consumer()
        await ordered.fetch(1, timeout=1)


def use_sync(url: str) -> None:
    with sync.connect(url) as connection:
        js = connection.jetstream()
        stream = js.stream("S")
        consumer = stream.create_consumer(name="B")
        for _ in range(3):
            js.publish("s.a", b"x")
            js.publish_async("s.a", b"x").result(5)
            stream.get_msg(1)
            list(stream.get_batch(2))
            consumer.fetch(1, timeout=1)


def use_bulk(url: str) -> None:
    with bulk.connect(url) as connection:
        batch = pa.record_batch({"data": [b"x"] * 5})
        for _ in range(3):
            connection.request(StreamInfoRequest("S"))
            bulk.publish(connection, batch, subject="s.b")
            bulk.publish_atomic(connection, batch, subject="s.b", batch_rows=2)
            list(bulk.scan(connection, "S", read_method="consumer"))
            list(bulk.scan(connection, "S", read_method="direct"))
            bulk.last_per_subject(connection, "S")


@pytest.mark.parametrize(
    "use", [lambda url: asyncio.run(use_aio(url)), use_sync, use_bulk], ids=["aio", "sync", "bulk"]
)
def test_no_reply_subject_can_be_predicted_from_another(server: NatsServer, use: Callable[[str], None]) -> None:
    with bulk.connect(server.url) as admin, sync.connect(server.url) as spy:
        admin.request(StreamCreateRequest(_STREAM))
        for number in range(20):
            bulk.publish(admin, pa.record_batch({"data": [b"x"]}), subject=f"s.{number}")
        seen: list[str] = []
        everything = spy.subscribe(">", callback=lambda message: seen.append(message.reply or ""))
        spy.flush()
        use(server.url)
        spy.flush()
        everything.drain()
        replies = {reply for reply in seen if reply.startswith("_INBOX.")}
        assert len(replies) > 15
        assert [reply for reply in replies if not _RANDOM.search(reply)] == []
        assert len({reply[-11:] for reply in replies}) == len(replies)


def forged(reply: str) -> Iterable[str]:
    """Return guesses of another reply subject of the same inbox, and of this one."""
    inbox, _, token = reply.rpartition(".")
    return [
        f"{inbox}.{guess}" for guess in ("1", "2", "3", token[:-1], token + "x", token[:-1] + "!", token.swapcase())
    ]


def wrong_answers_first(message: Published) -> Iterable[Answer]:
    yield from ((subject, ack("FORGED", 9)) for subject in forged(message.reply))
    yield message.reply, ack("S", message.number + 1)


def test_an_answer_to_a_reply_subject_that_was_not_handed_out_is_dropped_and_counted_on_asyncio() -> None:
    async def run(url: str) -> None:
        async with await aio.connect(url) as connection:
            js = connection.jetstream()
            assert [(await js.publish("s.a")).stream for _ in range(5)] == ["S"] * 5
            futures = [await js.publish_async("s.a") for _ in range(5)]
            assert [(await future).stream for future in futures] == ["S"] * 5
            stats = js.publish_async_stats
            assert (stats.acknowledged, stats.unmatched_acks) == (5, 5 * 7)

    with AnsweringServer(wrong_answers_first) as server:
        asyncio.run(run(server.url))


def test_an_answer_to_a_reply_subject_that_was_not_handed_out_is_dropped_and_counted_when_blocking() -> None:
    with AnsweringServer(wrong_answers_first) as server, sync.connect(server.url) as connection:
        js = connection.jetstream()
        assert js.publish("s.a").stream == "S"
        assert [js.publish_async("s.a").result(5).stream for _ in range(5)] == ["S"] * 5
        assert js.publish_async_stats.unmatched_acks == 5 * 7


def test_an_answer_to_a_reply_subject_that_was_not_handed_out_is_dropped_and_counted_in_bulk() -> None:
    def answer(message: Published) -> Iterable[Answer]:
        info = b'{"type":"io.nats.jetstream.api.v1.stream_names_response","total":%d,"offset":0,"limit":9,"streams":[]}'
        yield from ((subject, info % 99) for subject in forged(message.reply))
        yield message.reply, info % 0

    with AnsweringServer(answer) as server, bulk.connect(server.url) as connection:
        assert [connection.request(StreamNamesRequest()).total for _ in range(3)] == [0] * 3
        assert connection.unmatched_replies == 3 * 7
