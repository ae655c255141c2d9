"""Ordered readers whose stream is deleted and created again, on a real server and on both fronts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.api.consuming.support import numbered, payloads, take
from tests.connection.support import Proxy
from tests.fronts import Ground, connect, eventually

from jetspark.aio.jetstream import JetStream
from jetspark.errors import StreamRecreatedError
from jetspark.events import StreamRecreated

pytestmark = [
    pytest.mark.parametrize("profile", ["default"], indirect=True),  # the decisions are the same on each
    pytest.mark.parametrize("choice", ["error", "restart"]),
    pytest.mark.blocking,
]


@dataclass
class Reader:
    """A context whose session a test can cut, and its events."""

    js: JetStream
    proxy: Proxy
    events: list[Any]
    stream: str
    ground: Ground

    async def create(self, first: int, end: int) -> None:
        """Create the stream with messages of these numbers; delete the former one."""
        if first:
            await self.ground.admin_js.delete_stream(self.stream)
        await self.ground.admin_js.create_stream(name=self.stream, subjects=[f"{self.stream}.>"], storage="memory")
        await self.ground.fill(f"{self.stream}.a", *numbered(first, end))

    async def replace(self) -> None:
        """Create the stream again, with more messages, while there is no session."""
        self.proxy.open = False
        self.proxy.cut()
        await self.create(3, 13)
        self.proxy.open = True

    async def reported(self) -> StreamRecreated:
        """Wait for the event, and return it."""
        await eventually(lambda: [event for event in self.events if isinstance(event, StreamRecreated)])
        [event] = [event for event in self.events if isinstance(event, StreamRecreated)]
        return event


@asynccontextmanager
async def reader(ground: Ground) -> AsyncIterator[Reader]:
    async with Proxy(ground.server.port) as proxy:
        events: list[Any] = []
        connection = await connect(ground.front, proxy.url, on_event=events.append, reconnect_wait=0.05)
        async with connection:
            found = Reader(connection.jetstream(), proxy, events, ground.name(), ground)
            await found.create(0, 3)
            yield found
            await ground.admin_js.delete_stream(found.stream)


async def test_a_consume_does_not_skip_the_first_messages(ground: Ground, choice: Any) -> None:
    async with reader(ground) as own:
        ordered = own.js.ordered_consumer(own.stream, on_stream_recreated=choice)
        async with ordered.consume() as messages:
            assert payloads(await take(messages, 3)) == numbered(0, 3)
            await own.replace()
            if choice == "error":
                with pytest.raises(StreamRecreatedError, match="deleted and created again"):
                    await take(messages, 1)
            else:
                assert payloads(await take(messages, 10)) == numbered(3, 13)
        assert (await own.reported()).restarted == (choice == "restart")


async def test_a_subscription_does_not_skip_the_first_messages(ground: Ground, choice: Any) -> None:
    async with reader(ground) as own:
        subscription = await own.js.subscribe(
            f"{own.stream}.a", stream=own.stream, ordered_consumer=True, on_stream_recreated=choice
        )
        assert payloads([await subscription.next_msg(5) for _ in range(3)]) == numbered(0, 3)
        await own.replace()
        if choice == "error":
            with pytest.raises(StreamRecreatedError, match="deleted and created again"):
                await subscription.next_msg(10)
        else:
            assert payloads([await subscription.next_msg(10) for _ in range(10)]) == numbered(3, 13)
            await subscription.unsubscribe()
        assert (await own.reported()).restarted == (choice == "restart")


async def test_fetch_and_next_do_not_skip_the_first_messages(ground: Ground, choice: Any) -> None:
    async with reader(ground) as own:
        ordered = own.js.ordered_consumer(own.stream, on_stream_recreated=choice)
        assert payloads(await ordered.fetch(2)) == numbered(0, 2)
        assert (await ordered.next()).payload == b"2"
        await own.create(3, 13)
        if choice == "error":
            for _ in range(2):
                with pytest.raises(StreamRecreatedError, match="deleted and created again"):
                    await ordered.next()
        else:
            assert payloads(await ordered.fetch(10)) == numbered(3, 13)
            assert (await own.reported()).restarted
