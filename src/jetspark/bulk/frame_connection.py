"""The socket of a connection, with its session: sends, receives whole buffers of frames, reconnects.

One thread sends, receives, and answers PINGs while it receives. There is no background reader: data that nobody waits
for stays in the socket, and the server's limits apply. So it is cheap to keep one for each Spark worker.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from jetspark.bulk.open_session import is_writable, open_any, send_all, set_timeout
from jetspark.bulk.receive_buffer import ReceiveBuffer, UnreadTables
from jetspark.bulk.server_choice import ServerChoice
from jetspark.wire import frames
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    MaxControlLineError,
    MaxPayloadError,
    ProtocolError,
)
from jetspark.wire.options import ConnectOptions
from jetspark.wire.reply_tokens import new_tokens
from jetspark.wire.session import ServerInfo, parse_err, parse_info
from jetspark.wire.vector import FrameTable

__all__ = ["MUX_SID", "FrameConnection"]

MUX_SID: Final = 1
"""Id of the subscription for the answers to requests."""
_MAX_DUE_PONGS: Final = 16  # a server that reads nothing gets no more
_LINGER_READ_SIZE: Final = 1 << 20


class FrameConnection:
    """The part of a `Connection` that knows frames only."""

    _socket: socket.socket | None = None

    def __init__(self, options: ConnectOptions) -> None:
        self.options = options
        """Options of the connection."""
        self.interrupted = False
        """Whether `interrupt` was called."""
        self._pid = os.getpid()
        self._unread_tables = UnreadTables()
        self._next_sid = MUX_SID + 1
        self._active_sids: set[int] = set()  # ids of the subscriptions that were not ended
        self._next_token = new_tokens()
        self._inbox = f"{options.inbox_prefix}.{secrets.token_hex(11)}"
        self._sending = False
        self._servers = ServerChoice(options)
        self.address = options.addresses()[0]
        """The present server; before the first session one of those to try."""
        self._received = ReceiveBuffer(self.address)
        self._due_pongs = 0  # PINGs that are not answered yet
        self.pongs = 0
        """Number of PONGs received so far."""
        self.unmatched_replies = 0
        """Number of replies that no request waited for: late, second or forged ones. They are dropped."""
        self.jetstream_answered = False
        """Whether JetStream has answered a request. If nobody answers later, JetStream is away for a moment."""
        self.server_info: ServerInfo
        """Information from the present server."""
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if "address" not in self.__dict__:  # a traceback may show a connection that was not made
            return "<Connection, not open yet>"
        return f"<Connection to {self.address}{', closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether the connection is unusable: closed, lost, or opened by another process (before a fork)."""
        return self._socket is None or self._pid != os.getpid()

    def __del__(self) -> None:
        if not self.closed:
            name = repr(self)
            self.close()
            warnings.warn(f"unclosed {name}", ResourceWarning, stacklevel=2)

    def close(self, linger: float = 0.0) -> None:
        """Close the socket. May be repeated.

        Parameters
        ----------
        linger
            Most seconds to wait until the server has read all that was sent. A socket that is closed while data comes
            in is reset, and then the server may not read the last requests.
        """
        opened, self._socket = self._socket, None
        self._unread_tables.clear()
        self._received.clear()
        if opened is not None:
            with opened:
                if linger:
                    _wait_read_by_server(opened, time.monotonic() + linger)

    def interrupt(self) -> None:
        """Make the thread that uses the connection fail at once. The only call for another thread.

        Nothing can be read any more. Small requests can still be sent, for instance to delete a consumer.
        """
        self.interrupted = True
        opened = self._socket
        if opened is not None:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR if self._sending else socket.SHUT_RD)

    def reconnect(self, deadline: float = math.inf) -> None:
        """Open the connection again, to any of the servers, also those that the cluster reports; lose subscriptions."""
        self.close()
        self._pid = os.getpid()
        # If sessions are lost soon, it waits: nothing reports that the next one lasts.
        time.sleep(max(min(self._servers.reopen_delay(), deadline - time.monotonic()), 0))
        self._open(deadline)

    def leave(self) -> None:
        """Close the connection; `reconnect` then tries the other servers first."""
        self._servers.leave()
        self.close()

    def note_answer(self) -> None:
        """Note that JetStream has stored or delivered something."""
        self._servers.on_answer()

    def note_error(self, error: BaseException, waited: float = 0.0) -> Callable[[], None] | None:
        """Note the error of an operation that has waited for so many seconds; return what to do before a retry, if any.

        After silence, the connection may be dead without a sign of it. If JetStream is unavailable for some seconds,
        another server may serve.
        """
        self._servers.on_error(error, waited)
        return self.leave if isinstance(error, TimeoutError) or self._servers.should_leave() else None

    def _leave_if_unavailable(self, deadline: float) -> None:
        """Go to another server before an operation, if JetStream has not served for some seconds."""
        if not self._active_sids and not self.closed and self._servers.should_leave():
            self.leave()
            self.reconnect(deadline)

    def _open(self, deadline: float = math.inf) -> None:
        deadline = min(deadline, time.monotonic() + self._servers.timeout)
        opened = open_any(self.options, self._servers, self._set_socket, deadline)
        self.address, self.server_info = opened.server.address, opened.server_info
        self._servers.on_session_opened(opened.server, opened.server_info)
        self._received.begin_session(self.address, opened.unread)
        self._due_pongs = 0
        self._active_sids.clear()  # their ids are not used again: operations may end subscriptions of the last session
        mux = frames.sub(f"{self._inbox}.*".encode(), MUX_SID)
        self.send(mux, self._deadline(None))

    def _deadline(self, deadline: float | None) -> float:
        return time.monotonic() + self.options.connect_timeout if deadline is None else deadline

    def _set_socket(self, opened: socket.socket | None) -> None:
        self._socket = opened

    def fileno(self) -> int:
        """Return the file descriptor of the socket, to wait until it is readable after `read` returned None."""
        return self._socket_until(time.monotonic()).fileno()

    def _socket_until(self, deadline: float) -> socket.socket:
        if self._socket is None or self._pid != os.getpid():
            raise ConnectionClosedError(f"the connection to {self.address} is closed; open another one")
        set_timeout(self._socket, deadline)
        return self._socket

    def send(self, data: bytes | memoryview, deadline: float) -> None:
        """Write all data.

        Raises
        ------
        DisconnectedError
            The connection is lost, or the deadline (monotonic) passed before all was written.
        """
        opened = self._socket_until(deadline)
        try:
            self._sending = True
            send_all(opened, data, deadline)
        except OSError as error:  # also a timeout: a part of a frame may be sent, so the connection is unusable
            lost = self._received.last_refusal(opened) or DisconnectedError(
                f"{self.address}: the connection was lost while sending: {error}"
            )
            self.close()
            raise lost from error
        finally:
            self._sending = False

    def ping(self) -> None:
        """Send a PING, unless the socket takes no more data now. `pongs` counts the answers."""
        if is_writable(self._socket_until(time.monotonic())):
            self.send(frames.PING, self._deadline(None))

    def _send_due_pongs(self) -> None:
        """Answer PINGs, unless the socket takes no more data now: a server that does not read must not delay a call."""
        if self._due_pongs and is_writable(self._socket_until(time.monotonic())):
            data, self._due_pongs = frames.PONG * self._due_pongs, 0
            self.send(data, self._deadline(None))

    def read(self, deadline: float, *, target_bytes: int = 1) -> FrameTable | None:
        """Wait for messages and decode all that have come.

        Parameters
        ----------
        deadline
            Monotonic time to wait until. Bytes that have come by then are still read, but nothing after them.
        target_bytes
            Bytes to collect before decoding. It decodes fewer if nothing comes for about two milliseconds, or 20 ms
            after the first bytes.

        Returns
        -------
        FrameTable | None
            Valid until the next call; None when no message came in time.

        Raises
        ------
        DisconnectedError
            The connection is lost.
        PermissionsViolationError, ...
            The server reported an error.
        """
        if self._unread_tables:
            return self._unread_tables.popleft()
        while self._fill(deadline, target_bytes):
            try:
                table = self._received.decode()
            except ProtocolError as error:  # the start of the next frame is unknown
                self.close()
                raise ProtocolError(f"{self.address}: {error}") from error
            if table is not None:
                self._handle_controls(table)
                if len(table):
                    return table
            if time.monotonic() >= deadline:
                break
        return None

    def _fill(self, deadline: float, target_bytes: int) -> bool:
        self._send_due_pongs()
        opened = self._socket_until(deadline)
        if self.interrupted:
            raise DisconnectedError(f"{self.address}: interrupted")
        try:
            return self._received.fill(opened, deadline, target_bytes)
        except DisconnectedError:
            if not self.interrupted:
                self.close()
            raise

    def _handle_controls(self, table: FrameTable) -> None:
        info = None
        for _, frame in table.controls:
            if isinstance(frame, frames.Ping):
                self._due_pongs = min(self._due_pongs + 1, _MAX_DUE_PONGS)
            elif isinstance(frame, frames.Pong):
                self.pongs += 1
            elif isinstance(frame, frames.Info):
                info = frame  # the latest one replaces the others
            elif isinstance(frame, frames.Err):
                error = parse_err(frame.text, str(self.address))
                if isinstance(error, MaxControlLineError | MaxPayloadError):
                    self.close()  # the server does the same
                raise error
        self._send_due_pongs()
        if info is not None:
            self._read_info(info)

    def _read_info(self, frame: frames.Info) -> None:
        try:
            self.server_info = parse_info(frame)
        except ProtocolError as error:
            self.close()
            raise ProtocolError(f"{self.address}: {error}") from None
        self._servers.on_info(self.server_info)


def _wait_read_by_server(opened: socket.socket, deadline: float) -> None:
    """Tell the server that nothing more comes, and drop what it sends until it has closed the connection, too."""
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            opened.settimeout(left)
            if not opened.recv(_LINGER_READ_SIZE):
                return
