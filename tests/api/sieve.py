"""A proxy that drops messages on their way to the client, or holds them back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from tests.connection.support import Proxy

from jetspark.wire.frames import MessageLine, parse_message_line

__all__ = ["Sieve"]


class Sieve(Proxy):
    """A proxy that drops messages on their way to the client, or holds them back.

    `loses` is called for each message, with its control line and the following header block and payload. Between `hold`
    and `release`, everything that the server sends is held back, and `held` are the messages in it. Messages that are
    dropped or held back count neither as passed nor towards the budget.
    """

    def __init__(self, port: int, loses: Callable[[MessageLine, bytes], bool] = lambda _line, _content: False) -> None:
        super().__init__(port)
        self.loses = loses
        self.lost = 0
        self.held: list[bytes] = []
        self._stopped: list[tuple[asyncio.StreamWriter, bytes]] | None = None

    def hold(self) -> None:
        """Pass nothing to the clients."""
        assert self._stopped is None, "it is held up already"
        self._stopped = []

    def release(self) -> None:
        """Pass on the held data, and everything that follows."""
        for writer, data in self._stopped or ():
            self.passed += len(data)
            writer.write(data)
        self._stopped = None
        self.held.clear()

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
                if self._stopped is not None:
                    self._stopped.append((writer, line + content))
                    if content:
                        self.held.append(content)
                    continue
                data = line + content
                self.passed += len(data)
                writer.write(data[:left])
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.cut()
                        return
        writer.transport.abort()
        self._writers.discard(writer)
