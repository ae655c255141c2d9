"""One session's socket: an asyncio protocol between the transport and the client state machine.

Received bytes go straight into the read loop; what is to be sent goes out in one write for each turn of the event loop.
Every failure here, also a bug of the library, ends this session only: `lost` is set, and the supervisor opens another
session. There is no task here that could end unnoticed.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from jetspark.aio.name_lookup import look_up
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.errors import DisconnectedError, Error, FlushTimeoutError, ProtocolError, StaleConnectionError
from jetspark.wire.inbound import Inbound
from jetspark.wire.options import ServerAddress, TLSOptions
from jetspark.wire.server_pool import Server
from jetspark.wire.session import Accepted, Read, StartTLS, Write, open_session, plaintext_error

__all__ = ["WRITE_TIMEOUT", "SessionProtocol", "open_transport"]

WRITE_TIMEOUT: Final = 10.0
"""Seconds to wait for a server that reads nothing; `flush` has the same default."""
_READ_SIZE: Final = 120 << 10
"""Most bytes of one read. The buffer is reused; asyncio would allocate that many bytes for each read."""


class SessionProtocol(asyncio.BufferedProtocol):
    """The protocol of one session.

    Attributes
    ----------
    lost
        Set to the reason as soon as the session cannot be used any more.
    closed
        Set when the socket is closed.
    write_paused
        Whether the transport wants no more data for now.
    """

    def __init__(self, client: ConnectionState, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.lost: asyncio.Future[Error] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.write_paused = False
        self._server = server
        self._client = client
        self._inbound: Inbound | None = None  # None until the server has accepted the client
        self._handshake_bytes = bytearray()  # bytes that the handshake has not read yet
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reading_paused = False
        self._frames_left = False  # received control frames are left, for the next turn of the event loop
        self._closing = False  # closing: the socket is closed when the server has answered the last PING
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._bytes_waiter: asyncio.Future[None] | None = None  # set when bytes of the handshake have come
        self._writable_waiter: asyncio.Future[None] | None = None  # set when the transport wants more data

    @property
    def _address(self) -> ServerAddress:
        return self._server.address

    # -- called by the transport ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (there is one buffer)
        return self._buffer  # asyncio's TLS slices it, so it must be a view

    def buffer_updated(self, nbytes: int) -> None:
        if self.lost.done() and not self._closing:
            return
        data = self._buffer[:nbytes].tobytes()
        if self._inbound is None:
            self._handshake_bytes += data
            _wake_waiter(self._bytes_waiter)
        else:
            self._feed(self._inbound, data)

    def _feed(self, inbound: Inbound, data: bytes) -> None:
        client = self._client
        client.pings.received += 1
        try:
            frames_left = inbound.feed(data)
        except Error as error:
            # The events keep the error. Its frames would keep the last message, which the garbage collector cannot see.
            error.__cause__ = error.__context__ = None
            self.fail(error.with_traceback(None))
            return
        except Exception as error:  # noqa: BLE001 - a bug of ours must end the session too, not leave it half alive
            failure = ProtocolError(f"{self._address}: cannot go on reading: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self.fail(failure)
            return
        if frames_left:
            self._read_on_soon()
        if client.fatal_error is not None:
            self.fail(client.fatal_error)
            return
        if self._closing:
            self._finish_close()
            return
        if client.outbound.chunks:
            self.flush()
        if client.full_subscriptions.paused:
            self.pause_reading()

    def _read_on_soon(self) -> None:
        """Let the event loop do other work before the frames that are left; receive no further bytes until then."""
        if not self._frames_left and self._transport is not None:
            self._frames_left = True
            self._transport.pause_reading()
            self._loop.call_soon(self._read_frames_left)

    def _read_frames_left(self) -> None:
        self._frames_left = False
        if self._inbound is not None and (self._closing or not self.lost.done()):
            self._feed(self._inbound, b"")
        transport = self._transport
        if transport is not None and not (self._frames_left or self._reading_paused or transport.is_closing()):
            transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            reason = DisconnectedError(f"{self._address}: the server closed the connection")
        else:
            reason = DisconnectedError(f"{self._address}: {str(error) or type(error).__name__}")
            reason.__cause__ = error
        self._mark_lost(reason)
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        self.flush()
        if not self.write_paused:
            _wake_waiter(self._writable_waiter)

    # -- called by the connection --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the queue, unless the transport has paused writing."""
        if not self.write_paused:
            self.force_flush()

    def force_flush(self) -> None:
        """Send the queue, even if the transport has paused writing."""
        outbound = self._client.outbound
        if outbound.chunks and outbound.online and self._transport is not None:
            if self._client.timed_senders:  # the iterator of a weak set costs time
                for each in self._client.timed_senders:
                    each.expire_late()
            try:
                self._transport.write(outbound.take_all())
            except Exception as error:  # noqa: BLE001 - as for reading: a session that cannot write is over
                self.fail(DisconnectedError(f"{self._address}: cannot write: {error}"))

    async def wait_writable(self) -> None:
        """Wait until the transport takes more, or the session is over.

        Raises FlushTimeoutError if it takes nothing for `WRITE_TIMEOUT` seconds. The queue is sent later, if it does.
        """
        if self.write_paused and not self.lost.done():
            if self._writable_waiter is None or self._writable_waiter.done():
                self._writable_waiter = self._loop.create_future()
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    await asyncio.shield(self._writable_waiter)
            except TimeoutError:
                raise FlushTimeoutError(
                    f"{self._server.address}: the server has read nothing for {WRITE_TIMEOUT:g} s; "
                    "what is queued may still be sent"
                ) from None

    def pause_reading(self) -> None:
        """Stop reading, so that the server must wait."""
        if not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            if not self._frames_left:
                self._transport.resume_reading()

    def tick(self) -> None:
        """Handle the end of a ping interval."""
        if self._client.tick():
            self.flush()
        else:
            self.fail(
                StaleConnectionError(
                    f"{self._address}: {self._client.options.max_outstanding_pings} PINGs without an answer"
                )
            )

    def fail(self, error: Error) -> None:
        """End the session: close the socket without waiting for anything."""
        self._mark_lost(error)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the socket once the server has read the sent data, which the PONG to a last PING confirms.

        A closed socket answers further data of the server with a reset, and then data that was sent may be lost. So
        reading continues until the PONG; the received data is dropped, as the client is closed. The caller must limit
        the time.
        """
        self._mark_lost(DisconnectedError(f"{self._address}: closed"))
        if self._transport is None:
            if not self.closed.done():
                self.closed.set_result(None)
            return
        self._closing = True
        try:
            self._transport.write(self._client.final_ping())
            self.resume_reading()
        except Exception as error:  # noqa: BLE001 - the session is over anyway
            self.fail(DisconnectedError(f"{self._address}: cannot write: {error}"))

    def _finish_close(self) -> None:
        """Check for the PONG: something was read after the last PING was sent."""
        if not self._client.pings:
            assert self._transport is not None
            self._closing = False  # a TLS transport reads during its close; a second close would leave the socket open
            self._transport.close()

    def _mark_lost(self, error: Error) -> None:
        if not self.lost.done():
            self.lost.set_result(error)
        _wake_waiter(self._bytes_waiter)
        _wake_waiter(self._writable_waiter)

    # -- opening -------------------------------------------------------------------------------------------------

    async def handshake(self) -> Accepted:
        """Run `open_session` until the server has accepted the client."""
        conversation = open_session(self._client.options, self._client.servers, self._server)
        step = next(conversation)
        try:
            while True:
                if isinstance(step, Read):
                    step = conversation.send(await self._receive())
                    continue
                if isinstance(step, StartTLS):
                    await self._start_tls()
                else:
                    assert isinstance(step, Write)
                    assert self._transport is not None
                    self._transport.write(step.data)
                step = next(conversation)
        except StopIteration as done:
            return cast("Accepted", done.value)

    def begin(self, accepted: Accepted) -> None:
        """Begin the session that the server has accepted."""
        inbound = self._inbound = self._client.begin_session()
        self._client.on_session_opened(self._server, accepted.info)
        if accepted.unread:
            self._feed(inbound, accepted.unread)

    async def _receive(self) -> bytes:
        while not self._handshake_bytes:
            if self.lost.done():
                raise self.lost.result()
            self._bytes_waiter = self._loop.create_future()
            await self._bytes_waiter
        data = bytes(self._handshake_bytes)
        self._handshake_bytes.clear()
        return data

    async def _start_tls(self) -> None:
        address = self._address
        if self._handshake_bytes:
            raise plaintext_error(self._client.options, address, bytes(self._handshake_bytes))
        options = self._client.options.tls or TLSOptions()
        assert self._transport is not None
        transport = None
        try:
            transport = await self._loop.start_tls(
                self._transport,
                self,
                options.context(),
                server_hostname=options.server_hostname or address.tls_name or address.host,
            )
        except ConnectionResetError as error:
            if error.args:
                raise  # asyncio gives no reason if the server has closed the connection
        if transport is None:
            raise DisconnectedError(f"{address}: the server closed the connection during the TLS handshake")
        self._transport = transport


async def open_transport(client: ConnectionState, server: Server) -> tuple[SessionProtocol, Accepted]:
    """Open a socket and do the handshake within `connect_timeout`. Nothing stays open after a failure.

    The caller must call `begin` at once.
    """
    loop = asyncio.get_running_loop()
    session = SessionProtocol(client, server, loop)
    try:
        async with asyncio.timeout(client.options.connect_timeout):
            await _connect(loop, session, server.address)
            return session, await session.handshake()
    except BaseException:
        session.fail(DisconnectedError(f"{server.address}: not opened"))
        raise


async def _connect(loop: asyncio.AbstractEventLoop, session: SessionProtocol, address: ServerAddress) -> None:
    """Open the socket, to the first address of the host that accepts it."""
    failures: list[OSError] = []
    for host in await look_up(address.host, address.port):
        try:
            await loop.create_connection(lambda: session, host, address.port)
        except OSError as error:
            failures.append(error)
        else:
            return
    if len(failures) == 1:
        raise failures[0]
    raise OSError("; ".join(dict.fromkeys(map(str, failures))))


def _wake_waiter(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
