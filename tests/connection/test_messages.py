"""Publish and subscribe, on both fronts."""

from __future__ import annotations

import asyncio

import pytest
from tests.connection.support import Front, Recorder, eventually

from jetspark.errors import (
    BadHeadersError,
    BadSubjectError,
    ConnectionClosedError,
    InvalidAckError,
    MaxPayloadError,
    NoMessageError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.headers import Headers
from jetspark.wire.messages import Message

pytestmark = pytest.mark.blocking


async def test_a_message_has_subject_payload_reply_and_headers(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("a.*")
    await connection.publish("a.b", b"payload", reply="r.s", headers={"Key": "value"})
    message = await subscription.next_msg(5)
    assert (message.subject, message.payload, message.reply) == ("a.b", b"payload", "r.s")
    assert message.headers == {"Key": "value"}
    assert message.status is None
    assert len(message) == 7


async def test_messages_come_in_order(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("order")
    for number in range(1000):
        await connection.publish("order", b"%d" % number)
    got = [int((await subscription.next_msg(5)).payload) for _ in range(1000)]
    assert got == list(range(1000))


@pytest.mark.parametrize("payload", [bytearray(b"abc"), memoryview(b"xabcx")[1:4]], ids=["bytearray", "memoryview"])
async def test_a_payload_can_be_any_bytes_like_object(front: Front, url: str, payload: bytearray | memoryview) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("buffer")
    await connection.publish("buffer", payload)
    assert (await subscription.next_msg(5)).payload == b"abc"


async def test_no_answer_goes_to_a_reply_subject_of_an_api(front: Front, url: str) -> None:
    connection = await front.connect(url)
    connection.jetstream(prefix="acme.API")
    subscription = await connection.subscribe("question")
    api = await connection.subscribe("acme.API.>")
    await connection.publish("question", b"?", reply="acme.API.STREAM.DELETE.S")
    message = await subscription.next_msg(5)
    for answer in (message.respond, message.ack, message.nak, message.term, message.in_progress, message.ack_sync):
        with pytest.raises((BadSubjectError, InvalidAckError)):
            await answer()
    await connection.flush(timeout=5)
    with pytest.raises(NoMessageError):
        await api.next_msg(0.01)


async def test_text_is_refused_as_a_payload(front: Front, url: str) -> None:
    connection = await front.connect(url)
    with pytest.raises(TypeError, match="not str"):
        await connection.publish("a", "text")  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.conformance("WIR-02")
@pytest.mark.parametrize("size", [0, 1, 30_000])
async def test_payloads_and_headers_of_any_size_are_delivered(front: Front, url: str, size: int) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("sizes")
    await connection.publish("sizes", b"", headers={"H": "h" * size})
    await connection.publish("sizes", b"p" * size)
    first, second = await subscription.next_msg(5), await subscription.next_msg(5)
    assert (first.headers["H"], first.payload) == ("h" * size, b"")
    assert second.payload == b"p" * size
    assert not second.headers


@pytest.mark.conformance("WIR-04")
async def test_header_keys_keep_their_case_and_may_repeat(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("headers")
    sent = Headers([("A", "1"), ("a", "2"), ("A", "3")])
    await connection.publish("headers", b"", headers=sent)
    headers = (await subscription.next_msg(5)).headers
    assert headers.get_all("A") == ["1", "3"]
    assert headers.get("a") == "2"
    assert list(headers.items()) == list(sent.items())


async def test_r52_the_headers_of_the_caller_are_not_changed(front: Front, url: str) -> None:
    connection = await front.connect(url)
    headers = {"A": "1"}
    await connection.publish("headers", b"", headers=headers)
    assert headers == {"A": "1"}


@pytest.mark.conformance("WIR-05")
@pytest.mark.parametrize("headers", [{"a b": "x"}, {"a:b": "x"}, {"é": "x"}, {"": "x"}, {"k": "x\r\ny"}, {"k": "x\n"}])
async def test_invalid_headers_raise_and_nothing_is_sent(front: Front, url: str, headers: dict[str, str]) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("bad")
    with pytest.raises(BadHeadersError):
        await connection.publish("bad", b"", headers=headers)
    await connection.flush()
    assert subscription.received == 0


async def test_user_headers_named_status_are_data(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("status")
    await connection.publish("status", b"", headers={"Status": "404", "Description": "hi"})
    message = await subscription.next_msg(5)
    assert message.status is None
    assert message.headers["Status"] == "404"


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x 0\r\n", "a..b", ".a", "a.", "a.*", ">", "\ud800"])
async def test_an_invalid_subject_raises_before_anything_is_sent(front: Front, url: str, subject: str) -> None:
    connection = await front.connect(url)
    with pytest.raises(BadSubjectError):
        await connection.publish(subject, b"")
    with pytest.raises(BadSubjectError):
        await connection.publish("fine", b"", reply=subject or "a b")
    with pytest.raises(BadSubjectError):
        await connection.subscribe(subject.replace("*", "").replace(">", "") or "a b")
    await connection.flush()


async def test_r50_a_payload_over_the_limit_raises_and_the_connection_stays_open(front: Front, url: str) -> None:
    connection = await front.connect(url)
    limit = connection.server_info.max_payload
    with pytest.raises(MaxPayloadError) as caught:
        await connection.publish("large", bytes(limit + 1))
    assert (caught.value.size, caught.value.limit) == (limit + 1, limit)
    with pytest.raises(MaxPayloadError):
        await connection.publish("large", bytes(limit - 10), headers={"Key": "counts too"})
    subscription = await connection.subscribe("large")
    await connection.publish("large", bytes(limit))
    assert len((await subscription.next_msg(5)).payload) == limit


async def test_a_queue_group_shares_the_messages(front: Front, url: str) -> None:
    connection = await front.connect(url)
    members = [await connection.subscribe("work", queue="group") for _ in range(3)]
    for _ in range(300):
        await connection.publish("work")
    await connection.flush()
    await eventually(lambda: sum(member.received for member in members) == 300)
    assert all(member.received for member in members)


async def test_a_callback_gets_the_messages_in_order_and_may_raise(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    got: list[int] = []

    def callback(message: Message) -> None:
        got.append(int(message.payload))
        if got[-1] == 3:
            raise RuntimeError("three")

    await connection.subscribe("call", callback=callback)
    for number in range(10):
        await connection.publish("call", b"%d" % number)
    await eventually(lambda: len(got) == 10)
    assert got == list(range(10))
    event = await recorder.wait(ErrorOccurred)
    assert isinstance(event.error, RuntimeError)


async def test_max_msgs_ends_the_iteration(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("few", max_msgs=3)
    for number in range(10):
        await connection.publish("few", b"%d" % number)
    got = [message.payload async for message in subscription]
    assert got == [b"0", b"1", b"2"]
    assert subscription.closed
    with pytest.raises(SubscriptionClosedError):
        await subscription.next_msg(1)


async def test_unsubscribe_after_a_number_counts_from_the_start(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("count")
    for _ in range(3):
        await connection.publish("count")
        await subscription.next_msg(5)
    await subscription.unsubscribe(5)
    for _ in range(10):
        await connection.publish("count")
    assert len([message async for message in subscription]) == 2


async def test_unsubscribe_after_a_number_that_was_reached_ends_at_once(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("count")
    await connection.publish("count")
    await subscription.next_msg(5)
    await subscription.unsubscribe(1)
    assert subscription.closed


async def test_unsubscribe_ends_a_waiting_iteration(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("nothing")

    async def read() -> list[Message]:
        return [message async for message in subscription]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    await subscription.unsubscribe()
    assert await asyncio.wait_for(reading, 5) == []


async def test_waiting_for_a_message_times_out(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("nothing")
    with pytest.raises(NoMessageError) as caught:
        await subscription.next_msg(0.05)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(NoMessageError):
        await subscription.next_msg(0)


async def test_several_readers_share_a_subscription(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("shared")
    readers = [asyncio.create_task(subscription.next_msg(5)) for _ in range(8)]
    await asyncio.sleep(0.05)
    for number in range(8):
        await connection.publish("shared", b"%d" % number)
    got = await asyncio.gather(*readers)
    assert sorted(message.payload for message in got) == [b"%d" % number for number in range(8)]


async def test_a_closed_connection_reports_it(front: Front, url: str) -> None:
    connection = await front.connect(url)
    subscription = await connection.subscribe("a")
    await connection.close()
    assert connection.closed
    with pytest.raises(ConnectionClosedError):
        await connection.publish("a")
    with pytest.raises(ConnectionClosedError):
        await connection.flush()
    with pytest.raises(ConnectionClosedError):
        await connection.request("a")
    with pytest.raises(ConnectionClosedError):
        await connection.subscribe("a")
    with pytest.raises(ConnectionClosedError):
        await subscription.next_msg(1)
    with pytest.raises(ConnectionClosedError):
        await connection.drain()
    assert [message async for message in subscription] == []
    await connection.close()


async def test_messages_published_before_close_arrive(front: Front, url: str) -> None:
    receiver = await front.connect(url)
    subscription = await receiver.subscribe("last")
    await receiver.flush()
    sender = await front.connect(url)
    for _ in range(10_000):
        await sender.publish("last", bytes(100))
    await sender.close()
    await eventually(lambda: subscription.received == 10_000)


async def test_without_echo_the_server_does_not_return_our_own_messages(front: Front, url: str) -> None:
    connection = await front.connect(url, echo=False)
    subscription = await connection.subscribe("own")
    await connection.publish("own")
    await connection.flush()
    assert subscription.received == 0
