"""Statuses on a push subscription are handled by default and delivered on request."""

from __future__ import annotations

import pytest
from tests.api.subscribing.support import collect, errors, reported_error, side
from tests.fronts import Ground

from jetspark.errors import ConsumerDeletedError, NoConsumerResponseError, StatusError


@pytest.mark.conformance("STA-22")
@pytest.mark.parametrize(
    ("line", "kind"),
    [("409 Consumer Deleted", ConsumerDeletedError), ("503", NoConsumerResponseError), ("499 Something", StatusError)],
)
async def test_an_error_status_is_reported_and_not_delivered(
    ground: Ground, line: str, kind: type[StatusError]
) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a")
        await ground.inject(subscription.subject, f"NATS/1.0 {line}\r\n\r\n".encode())
        error = await reported_error(own.events, kind)
        assert str(error.code) == line[:3]
        await ground.fill(f"{stream.name}.a", b"1")
        assert (await subscription.next_msg(5)).payload == b"1"
        assert subscription.delivered == 1
        await subscription.unsubscribe()


@pytest.mark.conformance("STA-22")
async def test_an_error_status_does_not_reach_a_callback(ground: Ground) -> None:
    stream = await ground.stream()
    seen: list[bytes] = []
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", callback=lambda message: seen.append(message.payload))
        await ground.inject(subscription.subject, b"NATS/1.0 499 Foo\r\n\r\n")
        await reported_error(own.events, StatusError)
        await subscription.unsubscribe()
    assert seen == []


async def test_a_message_that_looks_like_a_status_is_delivered(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.2)
    await ground.nc.request(f"{stream.name}.a", b"", headers={"Status": "404", "Description": "hi"})
    message = await subscription.next_msg(5)
    assert (message.payload, message.headers["Status"]) == (b"", "404")


async def test_statuses_are_delivered_on_request(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.1, manage_status=False)
        beat = (await collect(subscription, 1))[0]
        assert beat.status is not None
        assert (beat.status.code, beat.status.description) == (100, "Idle Heartbeat")
        await ground.inject(subscription.subject, b"NATS/1.0 499 Foo\r\n\r\n")
        codes = []
        while 499 not in codes:
            status = (await subscription.next_msg(5)).status
            assert status is not None
            codes.append(status.code)
        assert errors(own.events) == []
        await subscription.unsubscribe()
