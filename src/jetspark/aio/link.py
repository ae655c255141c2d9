"""One session's socket: an asyncio protocol between the transport and the client state machine.

Received bytes go straight into the read loop; what is to be sent goes out in one write for each turn of the event loop.
Every failure here, also a bug of the library, ends this session only: `lost` is set, and the supervisor opens another
session. There is no task here that could end unnoticed.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from jetspark.wire.client import Client
from jetspark.wire.errors import DisconnectedError, Error, ProtocolError, StaleConnectionError
from jetspark.wire.frames import Control
from jetspark.wire.options import ServerAddress, TLSOptions
from jetspark.wire.session import ReadLine, ServerInfo, StartTLS, Write, open_session

__all__ = ["Link", "open_link"]

_READ_SIZE: Final = 120 << 10
"""Most bytes of one read. The buffer is reused; asyncio would allocate that many bytes for each read."""


class Link(asyncio.BufferedProtocol):
    """The protocol of one session.

    Attributes
    ----------
    lost
        Set to the reason as soon as the session cannot be used any more.
    closed
        Set when the socket is closed.
    choked
        Whether the transport wants no more data for now.
    """

    def __init__(self, client: Client, address: ServerAddress, loop: asyncio.AbstractEventLoop) -> None:
        self.lost: asyncio.Future[Error] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.choked = False
        self._address = address
        self._client = client
        self._inbound = client.greet()
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._leaving = False  # closing: the socket is closed when the server has answered the last PING
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._news: asyncio.Future[None] | None = None  # set when a control frame has come
        self._room: asyncio.Future[None] | None = None  # set when the transport wants more data

    # -- called by the transport ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (there is one buffer)
        return self._buffer  # asyncio's TLS slices it, so it must be a view

    def buffer_updated(self, nbytes: int) -> None:
        client = self._client
        if self.lost.done() and not self._leaving:
            return
        data = self._buffer[:nbytes].tobytes()
        client.pings.alive = True
        try:
            self._inbound.feed(data)
        except Error as error:
            self.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - a bug of ours must end the session too, not leave it half alive
            failure = ProtocolError(f"{self._address}: cannot go on reading: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self.fail(failure)
            return
        if client.greeting is not None:
            _release(self._news)
            return
        if client.failure is not None:
            self.fail(client.failure)
            return
        if self._leaving:
            self._leave()
            return
        if client.outbound.chunks:
            self.flush()
        if client.congested:
            self.pause()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            reason = DisconnectedError(f"{self._address}: the server closed the connection")
        else:
            reason = DisconnectedError(f"{self._address}: {error}")
            reason.__cause__ = error
        self._lose(reason)
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self.choked = True

    def resume_writing(self) -> None:
        self.choked = False
        self.flush()
        if not self.choked:
            _release(self._room)

    # -- called by the connection --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the queue, unless the transport is choked."""
        if not self.choked:
            self.hand_over()

    def hand_over(self) -> None:
        """Send the queue, even if the transport is choked."""
        outbound = self._client.outbound
        if outbound.chunks and outbound.online and self._transport is not None:
            for each in self._client.timed:
                each.give_up_late()
            try:
                self._transport.write(outbound.take())
            except Exception as error:  # noqa: BLE001 - as for reading: a session that cannot write is over
                self.fail(DisconnectedError(f"{self._address}: cannot write: {error}"))

    async def room(self) -> None:
        """Wait until the transport takes more, or the session is over."""
        if self.choked and not self.lost.done():
            if self._room is None or self._room.done():
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def pause(self) -> None:
        """Stop reading, so that the server must wait."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def tick(self) -> None:
        """Handle the end of a ping interval."""
        if self._client.tick():
            self.flush()
        else:
            self.fail(
                StaleConnectionError(f"{self._address}: {self._client.options.max_pings} PINGs without an answer")
            )

    def fail(self, error: Error) -> None:
        """End the session: close the socket without waiting for anything."""
        self._lose(error)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the socket once the server has read the sent data, which the PONG to a last PING confirms.

        A closed socket answers further data of the server with a reset, and then data that was sent may be lost. So
        reading continues until the PONG; the received data is dropped, as the client is closed. The caller must limit
        the time.
        """
        self._lose(DisconnectedError(f"{self._address}: closed"))
        if self._transport is None:
            if not self.closed.done():
                self.closed.set_result(None)
            return
        self._leaving = True
        try:
            self._transport.write(self._client.farewell())
            self.resume()
        except Exception as error:  # noqa: BLE001 - the session is over anyway
            self.fail(DisconnectedError(f"{self._address}: cannot write: {error}"))

    def _leave(self) -> None:
        """Check for the PONG: something was read after the last PING was sent."""
        if not self._client.pings:
            assert self._transport is not None
            self._leaving = False  # a TLS transport reads during its close; a second close would leave the socket open
            self._transport.close()

    def _lose(self, error: Error) -> None:
        if not self.lost.done():
            self.lost.set_result(error)
        _release(self._news)
        _release(self._room)

    # -- opening -------------------------------------------------------------------------------------------------

    async def converse(self, address: ServerAddress) -> ServerInfo:
        """Run `open_session` until the server has accepted the client."""
        conversation = open_session(self._client.options, address)
        step = next(conversation)
        try:
            while True:
                if isinstance(step, ReadLine):
                    step = conversation.send(await self._control())
                elif isinstance(step, StartTLS):
                    await self._start_tls(address)
                    step = next(conversation)
                else:
                    assert isinstance(step, Write)
                    assert self._transport is not None
                    self._transport.write(step.data)
                    step = next(conversation)
        except StopIteration as done:
            return cast("ServerInfo", done.value)

    async def _control(self) -> Control:
        frames = self._client.greeting
        assert frames is not None
        while not frames:
            if self.lost.done():
                raise self.lost.result()
            self._news = self._loop.create_future()
            await self._news
        return frames.popleft()

    async def _start_tls(self, address: ServerAddress) -> None:
        options = self._client.options.tls or TLSOptions()
        assert self._transport is not None
        transport = await self._loop.start_tls(
            self._transport,
            self,
            options.context(),
            server_hostname=options.server_hostname or address.tls_name or address.host,
        )
        if transport is None:  # the server closed the connection during the handshake
            raise DisconnectedError(f"{address}: the server closed the connection during the TLS handshake")
        self._transport = transport


async def open_link(client: Client, address: ServerAddress) -> tuple[Link, ServerInfo]:
    """Open a socket and a session on it within `connect_timeout`. Nothing stays open after a failure."""
    loop = asyncio.get_running_loop()
    link = Link(client, address, loop)
    try:
        async with asyncio.timeout(client.options.connect_timeout):
            await loop.create_connection(lambda: link, address.host, address.port)
            return link, await link.converse(address)
    except BaseException:
        link.fail(DisconnectedError(f"{address}: not opened"))
        raise


def _release(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
