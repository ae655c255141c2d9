"""What the tests of subscriptions share: a connection whose events are kept, and a proxy that loses messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.connection.support import Proxy, Recorder, eventually
from tests.fronts import Ground, connect

from jetspark.aio import Connection, Msg
from jetspark.aio.jetstream import JetStream, PushSubscription
from jetspark.events import ErrorOccurred
from jetspark.wire.frames import MessageLine, parse_message_line

__all__ = ["Side", "Sieve", "collect", "errors", "live", "side", "told"]


@dataclass
class Side:
    """A connection of its own for the test."""

    nc: Connection
    js: JetStream
    events: Recorder


@asynccontextmanager
async def side(ground: Ground, url: str | None = None, **options: Any) -> AsyncIterator[Side]:
    """Connect with the front and the profile under test, and keep the events."""
    events = Recorder()
    given = {**ground.profile.options, "on_event": events, **options}
    nc = await connect(ground.front, url or ground.server.url, **given)
    try:
        yield Side(nc, nc.jetstream(domain=ground.profile.domain), events)
    finally:
        await nc.close()


def errors(events: Recorder, kind: type[Exception] = Exception) -> list[Exception]:
    """Errors of a class that were told as events."""
    return [event.error for event in events.of(ErrorOccurred) if isinstance(event.error, kind)]


async def told(events: Recorder, kind: type[Exception], count: int = 1) -> Any:
    """The count-th error of a class that is told as an event."""
    await eventually(lambda: len(errors(events, kind)) >= count, what=f"{count} x {kind.__name__}")
    return errors(events, kind)[count - 1]


async def collect(subscription: PushSubscription, count: int) -> list[Msg]:
    """The next messages of a subscription."""
    return [await subscription.next_msg(10) for _ in range(count)]


def live(nc: Connection) -> int:
    """How many subscriptions a connection has, its shared inbox included."""
    blocking: Any = getattr(nc, "inner", None)  # of a carried connection
    return len((nc if blocking is None else blocking.inner).client.routes)


class Sieve(Proxy):
    """A proxy that loses messages on their way to the client.

    `loses` is asked for every message, with its control line and what follows: header block and payload.
    """

    def __init__(self, port: int, loses: Callable[[MessageLine, bytes], bool] = lambda _line, _content: False) -> None:
        super().__init__(port)
        self.loses = loses
        self.lost = 0

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None, said: bytearray | None
    ) -> None:
        if said is not None:
            await super()._pipe(reader, writer, left, said)
            return
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readuntil(b"\n"):
                content = b""
                if line.startswith((b"MSG ", b"HMSG ")):
                    words = parse_message_line(line.rstrip(b"\r\n"))
                    content = await reader.readexactly(words.size + 2)
                    if self.loses(words, content[:-2]):
                        self.lost += 1
                        continue
                writer.write(line + content)
                await writer.drain()
        writer.transport.abort()
        self._writers.discard(writer)
