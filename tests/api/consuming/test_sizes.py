"""The size of a message for `max_bytes`, compared with the numbers of the server (SIZ-01 to SIZ-03)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.consuming.support import consumer_of, spy_on_pulls, take
from tests.fronts import Ground

from jetspark import aio
from jetspark.jetstream.header_names import PENDING_BYTES
from jetspark.jetstream.message import message_size


async def pending_bytes(ground: Ground, stream: str, consumer: str, max_bytes: int) -> tuple[list[aio.Msg], int]:
    """Return the messages of a pull of `max_bytes`, and the bytes that the server reports as left."""
    inbox = ground.admin.new_inbox()
    subscription = await ground.admin.subscribe(inbox)
    subject = f"{ground.admin_js.prefix}CONSUMER.MSG.NEXT.{stream}.{consumer}"
    body = b'{"batch":1000000,"max_bytes":%d,"expires":300000000}' % max_bytes
    await ground.admin.publish(subject, body, reply=inbox)
    messages = []
    while (message := await subscription.next_msg(5)).status is None:
        messages.append(message)
    await subscription.unsubscribe()
    return messages, int(message.headers[PENDING_BYTES])


@pytest.mark.conformance("SIZ-01")
async def test_subject_ack_subject_and_payload_count_toward_the_size(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    subject = f"{consumer.stream_name}.a"
    await ground.fill(subject, bytes(500), bytes(100))
    messages, left = await pending_bytes(ground, consumer.stream_name, consumer.name, 1000)
    sizes = [message_size(message) for message in messages]
    assert sizes == [
        len(subject) + len(message.reply) + size for message, size in zip(messages, (500, 100), strict=True)
    ]
    assert left == 1000 - sum(sizes)


@pytest.mark.conformance("SIZ-02")
@pytest.mark.parametrize("fields", [{}, {"headers_only": True}])
async def test_headers_count_with_their_size_on_the_wire(ground: Ground, fields: dict[str, Any]) -> None:
    consumer = await consumer_of(ground, **fields)
    headers = [("A", "1"), ("B", "  2 "), ("B", "3"), ("Long-Name", "x" * 50), ("E", "ü")]
    await ground.admin.request(f"{consumer.stream_name}.a", b"payload", headers=headers)
    messages, left = await pending_bytes(ground, consumer.stream_name, consumer.name, 2000)
    assert left == 2000 - sum(map(message_size, messages))
    assert len(messages) == 1


@pytest.mark.conformance("SIZ-03")
async def test_the_header_of_a_pinned_client_does_not_exceed_the_pull(ground: Ground) -> None:
    """Only our count includes the bytes of the header. The counters stay positive, and every message arrives."""
    consumer = await consumer_of(ground, priority_groups=["g"], priority_policy="pinned_client")
    await ground.fill(f"{consumer.stream_name}.a", *(bytes(300) for _ in range(30)))
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_bytes=1500, group="g") as messages:
        taken = await take(messages, 30)
        assert len(taken) == 30
        assert "Nats-Pin-Id" in taken[-1].headers
    assert len(spy.messages) < 30
