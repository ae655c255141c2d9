"""A publish without an acknowledgement says that the stream cannot store, if the server answers PING (a full disk)."""

from __future__ import annotations

import pytest
from tests.driver.frames import Ping
from tests.driver.jetstream import StreamScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import JetStream
from jetspark.errors import PublishTimeoutError

CANNOT_STORE = "the server answers PING, so the stream cannot store: its disk may be full"


async def publish(js: JetStream, kind: str) -> None:
    if kind == "publish":
        await js.publish("orders.new", timeout=4)
    elif kind == "publish_async":
        await (await js.publish_async("orders.new"))
    else:
        batch = js.atomic_batch(timeout=4)
        await batch.commit("orders.new")


@pytest.mark.parametrize("kind", ["publish", "publish_async", "atomic_batch"])
@pytest.mark.parametrize("answers", [True, False])
async def test_a_publish_without_an_acknowledgement_says_whether_the_stream_cannot_store(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock, kind: str, *, answers: bool
) -> None:
    js = await world.jetstream(ack_timeout=4)
    stream.answers = "hold"
    server.answers_pings = answers
    with pytest.raises(PublishTimeoutError, match="no acknowledgement within 4 s") as caught:
        await publish(js, kind)
    assert clock.now == 4.0
    assert (CANNOT_STORE in str(caught.value)) == answers
    server.answers_pings = True


@pytest.mark.parametrize("kind", ["publish", "publish_async"])
async def test_a_publish_that_is_acknowledged_sends_no_ping(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock, kind: str
) -> None:
    js = await world.jetstream(ack_timeout=4)
    before = len(server.session.of(Ping))
    await publish(js, kind)
    await clock.until(clock.now + 10)
    assert len(server.session.of(Ping)) == before
