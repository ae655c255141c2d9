"""A blocking, single-threaded connection that returns whole buffers of frames: subscriptions and requests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, TypeVar, Unpack

import numpy as np

from jetspark.bulk.frame_connection import MUX_SID, FrameConnection
from jetspark.bulk.receive_buffer import UnreadTables
from jetspark.engine.request_retry import RequestRetry
from jetspark.jetstream.api.base import Request
from jetspark.jetstream.errors import APIError
from jetspark.jetstream.names import API_PREFIX
from jetspark.wire import frames
from jetspark.wire.connect_keywords import ConnectFields
from jetspark.wire.errors import (
    DisconnectedError,
    RequestTimeoutError,
)
from jetspark.wire.headers import parse_status
from jetspark.wire.line_limits import MessageLimits, message_too_large
from jetspark.wire.options import ConnectOptions
from jetspark.wire.subjects import check_line
from jetspark.wire.vector import FrameTable

__all__ = ["Connection", "connect"]

R = TypeVar("R")

_MAX_OTHER_WORDS: Final = 72  # bytes of a publish's line besides its subject and its inbox: blanks, token, sizes


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
    try:
        options = ConnectOptions.of(where, **changes)
    finally:
        del where, changes  # a traceback with local variables must not show secrets
    return Connection(options)


class Connection(FrameConnection):
    """A connection, opened by `connect`. A context manager; for use by one thread in one process."""

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

    def request_message(
        self, subject: str, payload: bytes, timeout: float, header: bytes = b""
    ) -> frames.MsgFrame | None:
        """Send one message and wait for its answer; return None if there is none in `timeout` seconds.

        `header` is a whole header block.
        """
        reply = f"{self._inbox}.".encode() + self._next_token()
        check_line(
            subject, (reply, b"%d %d" % (len(header), len(header) + len(payload))), self.options.max_control_line
        )
        deadline = time.monotonic() + timeout
        self.send(frames.pub(subject.encode(), payload, reply=reply, header=header), deadline)
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
                ours = table.lines.sid == MUX_SID
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
