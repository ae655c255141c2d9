"""Helpers for the tests of the connection: both fronts with one asyncio interface, a recorder, a proxy, and waits.

The same tests run on the asyncio front and on the blocking one, whose calls run in threads.
"""

# ruff: noqa: ASYNC109 - the fronts take deadlines as parameters

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.carried import FrontName, connect

from jetspark import aio, bulk, sync
from jetspark.wire.events import Event
from jetspark.wire.options import ConnectOptions

E = TypeVar("E", bound=Event)

TEST_TIMEOUT = 30.0


async def eventually(
    condition: Callable[[], object], timeout: float = TEST_TIMEOUT, what: str = "the condition"
) -> None:
    """Wait until a condition is true. It may be asynchronous if it depends on the server."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not hold within {timeout:g} s")
        await asyncio.sleep(0.005)


class Recorder:
    """An event handler that keeps the events and the threads in which it was called."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[str] = set()

    def __call__(self, event: Event) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def wait(self, kind: type[E], count: int = 1, timeout: float = TEST_TIMEOUT) -> E:
        """Wait for the `count`-th event of a kind."""
        await eventually(lambda: len(self.of(kind)) >= count, timeout, f"{count} x {kind.__name__} in {self.names}")
        return self.of(kind)[count - 1]


class Front:
    """Opens connections of one front and closes them at the end of the test."""

    def __init__(self, name: FrontName) -> None:
        self.name = name
        self._opened: list[aio.Connection] = []

    async def connect(
        self,
        where: ConnectOptions | str | Sequence[str] | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        **changes: object,
    ) -> aio.Connection:
        connection = await connect(self.name, where, on_event=on_event, **changes)
        self._opened.append(connection)
        return connection

    async def answer(self, connection: aio.Connection, subject: str, answer: Callable[[bytes], bytes]) -> None:
        """Answer requests on a subject."""

        async def serve(message: aio.Msg) -> None:
            await message.respond(answer(message.payload))

        await connection.subscribe(subject, callback=serve)
        await connection.flush()

    async def close(self) -> None:
        for connection in self._opened:
            await connection.close()
        self._opened.clear()


class Proxy:
    """A TCP proxy in front of a server. It keeps the data of the clients, and cuts on request."""

    def __init__(self, port: int) -> None:
        self.said = bytearray()
        self.sessions = 0
        self.passed = 0  # bytes to clients
        self.open = True  # False: refuse new sessions
        self.passes_ends = True  # False: the server does not see that a client has closed its end
        self.listening = asyncio.Event()  # cleared: read nothing from the clients
        self.listening.set()
        self.budget: Callable[[], int | None] = lambda: None  # bytes to pass to the client before a cut
        self._port = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.own_port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.open = False  # a session that was accepted just now checks this
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.own_port}"

    def cut(self) -> None:
        """Reset every session."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        self.sessions += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            upstream, out = await asyncio.open_connection("127.0.0.1", self._port)
            self._writers.add(out)
            left = self.budget()
            await asyncio.gather(self._pipe(reader, out, None, self.said), self._pipe(upstream, writer, left, None))
        except OSError:
            writer.transport.abort()
        except asyncio.CancelledError:  # perhaps while it connects
            writer.transport.abort()
            raise

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None, said: bytearray | None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if said is not None:
                    said += data
                    await self.listening.wait()
                else:
                    self.passed += len(data)
                if left is not None and len(data) >= left:
                    writer.write(data[:left])
                    await writer.drain()
                    self.cut()
                    return
                if left is not None:
                    left -= len(data)
                writer.write(data)
                await writer.drain()
        if said is not None and not self.passes_ends:
            return
        writer.transport.abort()
        self._writers.discard(writer)


Connect = Callable[..., None]


def connect_aio(*args: Any, **options: Any) -> None:
    async def run() -> None:
        await (await aio.connect(*args, **options)).close()

    asyncio.run(run())


def connect_sync(*args: Any, **options: Any) -> None:
    sync.connect(*args, **options).close()


def connect_bulk(*args: Any, **options: Any) -> None:
    bulk.connect(*args, **options).close()
