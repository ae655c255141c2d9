"""A server with a low limit of control lines and subscriptions refuses a part, and the connection stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.connection.support import Front, Recorder

from jetspark.errors import MaxControlLineError, MaxSubscriptionsError
from jetspark.server import NatsServer
from jetspark.wire.events import Disconnected, ErrorOccurred, Reconnected

pytestmark = pytest.mark.blocking


@pytest.fixture(scope="module")
def limited() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False, config={"max_control_line": 512, "max_subscriptions": 3}) as server:
        yield server


async def test_only_the_subscription_that_the_server_refuses_ends(front: Front, limited: NatsServer) -> None:
    events = Recorder()
    connection = await front.connect(limited.url, on_event=events)
    kept = await connection.subscribe("kept")
    long = await connection.subscribe("l" * 600)
    with pytest.raises(MaxControlLineError, match="lll"):
        await long.next_msg(10)
    await events.wait(Reconnected)
    _more = [await connection.subscribe("more") for _ in range(2)]
    one_more = await connection.subscribe("one.more")
    with pytest.raises(MaxSubscriptionsError, match=r"one\.more"):
        await one_more.next_msg(10)
    await connection.publish("kept", b"x")
    assert (await kept.next_msg(10)).payload == b"x"
    with pytest.raises(MaxControlLineError):
        await connection.publish("l" * 600)
    assert len(events.of(Disconnected)) == 1
    assert [type(event.error) for event in events.of(ErrorOccurred)] == [MaxControlLineError, MaxSubscriptionsError]
