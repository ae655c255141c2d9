"""A blocking, single-threaded connection that returns whole buffers of frames.

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
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

import numpy as np

from jetspark.bulk.open_session import is_writable, open_any, send_all, set_timeout
from jetspark.bulk.receive_buffer import ReceiveBuffer, UnreadTables
from jetspark.bulk.server_choice import ServerChoice
from jetspark.engine.request_retry import RequestRetry
from jetspark.jetstream.api.base import Request
from jetspark.jetstream.errors import APIError
from jetspark.jetstream.names import API_PREFIX
from jetspark.wire import frames
from jetspark.wire.connect_keywords import ConnectFields
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    MaxControlLineError,
    MaxPayloadError,
    ProtocolError,
    RequestTimeoutError,
)
from jetspark.wire.headers import parse_status
from jetspark.wire.line_limits import MessageLimits, message_too_large
from jetspark.wire.options import ConnectOptions
from jetspark.wire.reply_tokens import new_tokens
from jetspark.wire.session import ServerInfo, parse_err, parse_info
from jetspark.wire.subjects import check_line
from jetspark.wire.vector import FrameTable

__all__ = ["Connection", "connect"]

R = TypeVar("R")

_MUX_SID: Final = 1
_MAX_OTHER_WORDS: Final = 72  # bytes of a publish's line besides its subject and its inbox: blanks, token, sizes
_MAX_DUE_PONGS: Final = 16  # a server that reads nothing gets no more
_LINGER_READ_SIZE: Final = 1 << 20


def connect(where: ConnectOptions | str | Sequence[str] | None = None, **changes: Unpack[ConnectFields]) -> Connection:
    """Open a connection.

    Parameters
    ----------
    where
        Options, a URL, a comma-separated list or a sequence of URLs. None takes the URLs of the environment variable
        `NATS_URL`, else `nats://localhost:4222`.
    changes
        Fields of `ConnectOptions` that replace those of `where`.

    Raises
    ------
    ConnectError
        A server cannot be reached; the message has its address. With several servers `NoServersError` lists them.
    AuthenticationError, TLSError
        The server rejects the client.
    """
    options = ConnectOptions.of(where, **changes)
    del where, changes  # a traceback with local variables must not show secrets
    return Connection(options)


class Connection:
    """A connection, opened by `connect`. A context manager; for use by one thread in one process."""

    _socket: socket.socket | None = None

    def __init__(self, options: ConnectOptions) -> None:
        self.options = options
        """Options of the connection."""
        self.interrupted = False
        """Whether `interrupt` was called."""
        self._pid = os.getpid()
        self._unread_tables = UnreadTables()
        self._next_sid = _MUX_SID + 1
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
        mux = frames.sub(f"{self._inbox}.*".encode(), _MUX_SID)
        self.send(mux, self._deadline(None))

    def _deadline(self, deadline: float | None) -> float:
        return time.monotonic() + self.options.connect_timeout if deadline is None else deadline

    def _set_socket(self, opened: socket.socket | None) -> None:
        self._socket = opened

    def fileno(self) -> int:
        """Return the file descriptor of the socket, to wait until it is readable after `read` returned None."""
        return self._socket_until(time.monotonic()).fileno()

    # -- sending -------------------------------------------------------------------------------------------------

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

    def subscribe(self, subject: str, deadline: float | None = None) -> int:
        """Send a SUB; return its id. Raises BadSubjectError if the server would not accept it.

        Without a deadline, `connect_timeout` limits the time, as for the next calls.
        """
        deadline = self._deadline(deadline)
        self._leave_if_unavailable(deadline)
        sid = self._next_sid
        check_line(subject, (b"%d" % sid,), self.options.max_control_line)
        self._next_sid += 1
        self._active_sids.add(sid)
        self.send(frames.sub(subject.encode(), sid), deadline)
        return sid

    def unsubscribe(self, sid: int, deadline: float | None = None) -> None:
        """Send an UNSUB. Messages that were sent before may still arrive."""
        self._active_sids.discard(sid)
        self.send(frames.unsub(sid), self._deadline(deadline))

    def new_inbox(self) -> str:
        """Return a new reply subject; the caller must subscribe to it."""
        return f"{self.options.inbox_prefix}.{secrets.token_hex(11)}"

    @property
    def message_limits(self) -> MessageLimits:
        """The limits of a message that is published with a reply subject below one of `new_inbox`."""
        line = self.options.max_control_line
        return MessageLimits(self.server_info.max_payload, line - len(self._inbox.encode()) - _MAX_OTHER_WORDS)

    def check_size(self, size: int) -> None:
        """Raise MaxPayloadError if headers and payload of that size exceed the server's limit (PUB-08)."""
        limit = self.server_info.max_payload
        if size > limit:
            raise message_too_large(size, limit)

    # -- receiving -----------------------------------------------------------------------------------------------

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

    # -- requests ------------------------------------------------------------------------------------------------

    def request(self, request: Request[R], *, timeout: float = 5.0, prefix: str = API_PREFIX) -> R:
        """Send a request of the JetStream API and read its reply.

        Parameters
        ----------
        request
            The request; see `jetspark.jetstream.api`.
        timeout
            Seconds for the whole call. In that time, refusals that pass by themselves (`Request.retry_delay`) are
            retried.
        prefix
            Prefix of the API's subjects, see `jetspark.jetstream.names.api_prefix`.

        Raises
        ------
        RequestTimeoutError
            No reply came in time. If a request that only reads was refused before, that refusal is raised instead.
        APIError
            The server refused the request. JetStreamNotEnabledError if nobody answers (503).
        """
        subject = request.subject(prefix)
        payload = request.payload()
        self.check_size(len(payload))
        began = time.monotonic()
        self._leave_if_unavailable(began + timeout)
        retry = RequestRetry(request, timeout, began)
        while True:
            message = self.request_message(subject, payload, min(retry.left, began + timeout - time.monotonic()))
            if message is None:
                retry.on_silence()
                unanswered = RequestTimeoutError(f"no reply to {subject} within {timeout:g} s from {self.address}")
                self.note_error(unanswered, timeout)
                raise unanswered
            status = parse_status(message.header) if message.header and not message.payload else None
            if status is not None:
                failure = request.status_error(status.code, status.description)
                self.note_error(failure)
                raise failure
            self.jetstream_answered = True
            try:
                answer = request.read(message.payload)
            except APIError as error:
                self.note_error(error)
                if (pause := retry.delay(error, time.monotonic())) is None:
                    raise
            else:
                if not request.idempotent:  # a server that is cut off still answers some requests that only read
                    self.note_answer()
                return answer
            time.sleep(pause)  # nothing reports that the cause has passed

    def request_message(self, subject: str, payload: bytes, timeout: float) -> frames.MsgFrame | None:
        """Send one message and wait for its answer; return None if there is none in `timeout` seconds."""
        reply = f"{self._inbox}.".encode() + self._next_token()
        check_line(subject, (reply, b"%d" % len(payload)), self.options.max_control_line)
        deadline = time.monotonic() + timeout
        self.send(frames.pub(subject.encode(), payload, reply=reply), deadline)
        return self._await_reply(reply, deadline)

    def request_nowait(self, request: Request[R], *, prefix: str = API_PREFIX) -> None:
        """Send a request without waiting for the reply."""
        reply = f"{self._inbox}.{self._next_token().decode()}"
        self.publish(request.subject(prefix), request.payload(), reply=reply)

    def publish(self, subject: str, payload: bytes, *, reply: str = "", deadline: float | None = None) -> None:
        """Send one small message at once; the caller must check its size. Raises BadSubjectError."""
        check_line(subject, (reply.encode(), b"%d" % len(payload)), self.options.max_control_line)
        self.send(frames.pub(subject.encode(), payload, reply=reply.encode()), self._deadline(deadline))

    def _await_reply(self, reply: bytes, deadline: float) -> frames.MsgFrame | None:
        """Wait for the message on a reply subject; messages of other subscriptions are kept for `read`."""
        held, self._unread_tables = self._unread_tables, UnreadTables()
        try:
            while (table := self.read(deadline)) is not None:
                ours = table.lines.sid == _MUX_SID
                found = None
                for row in np.flatnonzero(ours):
                    message = table.message(int(row))
                    if message.subject == reply and found is None:
                        found = message
                    else:
                        self.unmatched_replies += 1
                if not ours.all():
                    others = ~ours & np.isin(table.lines.sid, list(self._active_sids))  # the others have ended
                    if others.any():
                        self._keep(table.select(others).copy(), held)
                if found is not None or time.monotonic() >= deadline:
                    return found
            return None
        finally:
            self._unread_tables = held

    def _keep(self, table: FrameTable, held: UnreadTables) -> None:
        try:
            held.append(table)
        except DisconnectedError:  # too many are kept
            self.close()
            raise


def _wait_read_by_server(opened: socket.socket, deadline: float) -> None:
    """Tell the server that nothing more comes, and drop what it sends until it has closed the connection, too."""
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            opened.settimeout(left)
            if not opened.recv(_LINGER_READ_SIZE):
                return
