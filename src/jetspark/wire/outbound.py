"""Buffer of encoded frames to send, in order, with a limit while there is no session.

Subject, headers and size of a publish are checked here before the frame is kept. When the session ends, publishes that
were not handed to the socket stay, and commands of that session are dropped. The next session first restores its
subscriptions, then sends the publishes (REC-02).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from jetspark.wire import headers as header_block
from jetspark.wire.argument_types import check_arguments
from jetspark.wire.errors import (
    BadSubjectError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    OutboundBufferLimitError,
)
from jetspark.wire.frames import PONG
from jetspark.wire.headers import HeadersLike
from jetspark.wire.line_limits import MAX_CONTROL_LINE, MAX_QUOTED, SHORT_LINE, line_too_long, message_too_large
from jetspark.wire.subjects import check_filter_subject, check_publish_subject, check_reply_subject

__all__ = ["Outbound", "Payload"]

Payload = bytes | bytearray | memoryview
"""Types that a payload may have."""

_MAX_CACHED_SUBJECTS: Final = 1024
_MAX_CACHED_SUFFIXES: Final = 64
_MAX_CACHED_PAYLOAD: Final = 8
_MAX_PONGS: Final = 16
_SESSION_COMMANDS: Final = (b"SUB ", b"UNSUB ", b"PING\r\n", b"PONG\r\n")


class Outbound:
    """Frames to send.

    Attributes
    ----------
    chunks, size
        The frames and their total size in bytes.
    online
        Whether there is a session.
    close_reason
        Reason why nothing may be sent any more; None while the connection is open.
    max_payload
        Largest size of headers and payload together that the server accepts, in bytes.
    max_control_line
        Largest size of a control line without its verb that the server accepts, in bytes.
    longest_line
        Size and beginning of the longest such line of a publish in this session; of short lines there is none.
    limit
        Largest `size` while there is no session.
    taken_publishes
        Publishes handed over to sessions so far.
    api_prefixes
        Prefixes of the APIs that the program uses. Nothing is published to a received subject that begins so.
    """

    __slots__ = (
        "_ack_suffixes",
        "_commands",
        "_pongs",
        "_subjects",
        "api_prefixes",
        "chunks",
        "close_reason",
        "limit",
        "longest_line",
        "max_control_line",
        "max_payload",
        "online",
        "size",
        "taken_publishes",
    )

    def __init__(self, limit: int, max_control_line: int = MAX_CONTROL_LINE) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.online = False
        self.close_reason: Error | None = None
        self.max_payload = 1 << 20
        self.max_control_line = max_control_line
        self.longest_line = (0, b"")
        self.limit = limit
        self.taken_publishes = 0
        self.api_prefixes: tuple[bytes, ...] = ()
        self._commands = 0  # number of chunks that are not publishes
        self._pongs = 0  # number of PONGs among them
        self._subjects: dict[str, bytes] = {}
        self._ack_suffixes: dict[bytes, bytes] = {}

    @property
    def closed_error(self) -> ConnectionClosedError | None:
        """A new error with the reason of the close; None while the connection is open."""
        return None if self.close_reason is None else ConnectionClosedError(str(self.close_reason))

    def encode(
        self,
        subject: str,
        payload: Payload,
        reply: str | bytes,
        headers: HeadersLike | None,
        *,
        wildcards: bool = False,
    ) -> bytes:
        """Return the frame of a publish. A reply subject in bytes comes from the library itself and is not checked.

        With `wildcards` the subject may have wildcards: some subjects of the JetStream API end with a filter.

        Raises
        ------
        ConnectionClosedError, BadSubjectError, BadHeadersError, MaxPayloadError, TypeError
            The publish may not be sent.
        """
        try:
            if self.close_reason is not None:
                raise ConnectionClosedError(str(self.close_reason))
            if wildcards:
                target = _encode_subject(subject, check_filter_subject)
            else:
                target = self._subjects.get(subject) or self._encode_and_cache_subject(subject)
            data = payload if isinstance(payload, bytes) else _to_bytes(payload)
            size = len(data)
            if headers is None:
                if size > self.max_payload:
                    raise message_too_large(size, self.max_payload)
                if not reply:
                    if len(target) > SHORT_LINE:
                        self._check_publish_line(b"%b %d" % (target, size))
                    return b"PUB %b %d\r\n%b\r\n" % (target, size, data)
                answers = reply if isinstance(reply, bytes) else _encode_subject(reply)
                if len(target) + len(answers) > SHORT_LINE:
                    self._check_publish_line(b"%b %b %d" % (target, answers, size))
                return b"PUB %b %b %d\r\n%b\r\n" % (target, answers, size, data)
            if reply:
                target = b"%b %b" % (target, reply if isinstance(reply, bytes) else _encode_subject(reply))
            block = header_block.encode_header_block(headers)
            total = len(block) + size
            if total > self.max_payload:
                raise message_too_large(total, self.max_payload)
            if len(target) > SHORT_LINE:
                self._check_publish_line(b"%b %d %d" % (target, len(block), total))
            return b"HPUB %b %d %d\r\n%b%b\r\n" % (target, len(block), total, block, data)
        except Error:
            raise
        except (AttributeError, TypeError, ValueError):
            check_arguments(publish, (subject, payload, reply, headers), {})
            raise

    def add_api_prefix(self, prefix: str) -> None:
        """Add the prefix of an API, with its final dot."""
        if prefix.encode() not in self.api_prefixes:
            self.api_prefixes += (prefix.encode(),)

    def check_reply(self, reply: bytes) -> bytes:
        """Return a received subject. Raises BadSubjectError if nothing may be published to it."""
        check_reply_subject(reply, self.api_prefixes)
        if len(reply) > SHORT_LINE:
            self._check_publish_line(b"%b %d" % (reply, self.max_payload))
        return reply

    def check_line(self, line: bytes) -> None:
        """Raise MaxControlLineError if a control line, given without its verb, is too long for the server."""
        if len(line) > self.max_control_line:
            raise line_too_long(line, self.max_control_line)

    def _check_publish_line(self, line: bytes) -> None:
        self.check_line(line)
        if len(line) > self.longest_line[0]:
            self.longest_line = len(line), line[:MAX_QUOTED]

    def encode_ack(self, reply: bytes, payload: bytes) -> bytes:
        """Return the frame of a publish without headers to a received subject.

        Raises
        ------
        ConnectionClosedError, MaxPayloadError, BadSubjectError
        """
        self.check_reply(reply)
        if self.close_reason is not None:
            raise ConnectionClosedError(str(self.close_reason))
        if len(payload) > self.max_payload:
            raise message_too_large(len(payload), self.max_payload)
        return b"PUB %b%b" % (reply, self._ack_suffixes.get(payload) or self._encode_ack_suffix(payload))

    def queue_ack(self, reply: bytes, payload: bytes) -> int:
        """Do `encode_ack` and `publish` in one call, because acknowledgements are frequent."""
        self.check_reply(reply)
        if self.close_reason is not None:
            raise ConnectionClosedError(str(self.close_reason))
        if len(payload) > self.max_payload:
            raise message_too_large(len(payload), self.max_payload)
        frame = b"PUB %b%b" % (reply, self._ack_suffixes.get(payload) or self._encode_ack_suffix(payload))
        if not self.online:
            return self.queue_publish(frame)
        self.chunks.append(frame)
        self.size = size = self.size + len(frame)
        return size

    def queue_publish(self, frame: bytes) -> int:
        """Keep the frame of a publish; return the total bytes that wait.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the limit would be exceeded.
        """
        size = self.size + len(frame)
        if not self.online and size > self.limit:
            raise OutboundBufferLimitError(
                f"not connected, and {self.size} bytes wait to be sent (reconnect_buffer_size is {self.limit}); "
                "publish again after the reconnect, or raise reconnect_buffer_size"
            )
        self.chunks.append(frame)
        self.size = size
        return size

    def withdraw(self, frames: Iterable[bytes]) -> None:
        """Remove these publishes if they still wait. Frames are compared by identity, not by equality."""
        chunks = self.chunks
        if not chunks:
            return
        gone = {id(frame) for frame in frames}
        for at, chunk in enumerate(chunks):
            if id(chunk) in gone:
                chunks[at] = b""  # keep the place: the marks of PINGs count places
                self.size -= len(chunk)

    def queue_command(self, data: bytes) -> None:
        """Keep a command for the current session; it is dropped when the session ends."""
        if self.online and data:
            self.chunks.append(data)
            self.size += len(data)
            self._commands += 1

    def withdraw_unfit(self) -> list[tuple[str, Error]]:
        """Remove the publishes that the next server would refuse, and drop the connection for. Return their errors."""
        errors: list[tuple[str, Error]] = []
        for at, chunk in enumerate(self.chunks):
            size, line_size = len(chunk), chunk.find(b"\r\n")
            if size <= self.max_payload and line_size <= self.max_control_line:
                continue
            words = chunk[:line_size].split(b" ")
            subject, total = words[1].decode(), int(words[-1])
            line = b" ".join(words[1:])
            if total > self.max_payload:
                errors.append((subject, message_too_large(total, self.max_payload)))
            elif len(line) > self.max_control_line:
                errors.append((subject, line_too_long(line, self.max_control_line)))
            else:
                continue
            self.chunks[at] = b""
            self.size -= size
        return errors

    def queue_pong(self) -> None:
        """Answer a PING. If the server reads nothing, a few answers wait and the others are left out."""
        if self._pongs < _MAX_PONGS:
            self._pongs += 1
            self.queue_command(PONG)

    def begin_session(self, restored: bytes) -> None:
        """Begin a session; the commands in `restored` go before everything that waits."""
        self.online = True
        self.longest_line = (0, b"")
        if restored:
            self.chunks.insert(0, restored)
            self.size += len(restored)
            self._commands += 1

    @property
    def publish_count(self) -> int:
        """Number of publishes handed over or waiting."""
        return self.taken_publishes + len(self.chunks) - self._commands

    def take_all(self) -> bytes:
        """Remove and return all bytes that wait."""
        data = b"".join(self.chunks)
        self.taken_publishes = self.publish_count
        self.chunks.clear()
        self.size = self._commands = self._pongs = 0
        return data

    def end_session(self) -> None:
        """Handle the end of the session: drop its commands, keep the publishes."""
        self.online = False
        self._commands = self._pongs = 0
        self.chunks = [chunk for chunk in self.chunks if not chunk.startswith(_SESSION_COMMANDS)]
        self.size = sum(map(len, self.chunks))

    def unsent_error(self, request_inbox: str, *, with_acks: bool) -> DisconnectedError | None:
        """Return the error of the publishes that wait although there is no session; None if there are none.

        Requests are left out: their callers get an error. `request_inbox` is the beginning of their reply subjects.
        `with_acks` says whether acknowledgements count: without one, the server delivers the message again.
        """
        messages = acks = 0
        for chunk in () if self.online else self.chunks:
            words = chunk.partition(b"\r\n")[0].split(b" ")
            has_reply = len(words) == (5 if words[0] == b"HPUB" else 4)
            if words[0] in (b"PUB", b"HPUB") and not (has_reply and words[2].startswith(request_inbox.encode())):
                is_ack = words[1].startswith(b"$JS.ACK.")
                messages, acks = messages + (not is_ack), acks + is_ack
        if not messages and not (acks and with_acks):
            return None
        what = f"{messages} messages and {acks} acknowledgements" if acks and with_acks else f"{messages} messages"
        return DisconnectedError(f"{what} were not sent: the connection was down when it was closed")

    def close(self, error: Error) -> None:
        """Refuse to send from now on, and drop the frames that wait."""
        self.online = False
        # Not the error itself: calls raise that one, and its frames would keep the closed connection.
        self.close_reason = ConnectionClosedError(str(error))
        self.chunks.clear()
        self.size = self._commands = 0

    def _encode_ack_suffix(self, payload: bytes) -> bytes:
        """Return the bytes that follow the reply subject in an answer's frame. Those of short payloads are cached."""
        ending = b" %d\r\n%b\r\n" % (len(payload), payload)
        if len(payload) <= _MAX_CACHED_PAYLOAD and len(self._ack_suffixes) < _MAX_CACHED_SUFFIXES:
            self._ack_suffixes[payload] = ending
        return ending

    def _encode_and_cache_subject(self, subject: str) -> bytes:
        encoded = _encode_subject(subject)
        if len(self._subjects) >= _MAX_CACHED_SUBJECTS:
            self._subjects.clear()
        self._subjects[subject] = encoded
        return encoded


def publish(subject: str, payload: Payload, reply: str | bytes | None, headers: HeadersLike | None) -> None:
    """Have the types of a publish, for the error if one of them is wrong."""


def _to_bytes(payload: object) -> bytes:
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"a payload must be bytes, bytearray or memoryview, not {type(payload).__name__}")


def _encode_subject(subject: str, check: Callable[[str], str] = check_publish_subject) -> bytes:
    try:
        return check(subject).encode()
    except UnicodeEncodeError as error:
        raise BadSubjectError(f"subject {subject!r}: a lone surrogate cannot be encoded as UTF-8") from error
