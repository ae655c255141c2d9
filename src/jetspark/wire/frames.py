"""Scalar parser and serialiser of the NATS client protocol: one frame at a time.

    INFO {json}                                  +OK
    MSG <subject> <sid> [reply] <size>           -ERR '<text>'
    HMSG <subject> <sid> [reply] <header> <size> PING, PONG

`Parser.feed` takes bytes from the socket, cut anywhere, and gives the complete frames. Between two calls it holds at
most one incomplete frame. Control lines and sizes have limits; the parser raises `ProtocolError` as soon as it sees
that a limit is exceeded. A control line ends at its first line feed, which a carriage return must precede. The
vectorised decoder (`jetspark.wire.vector`) does the same for whole buffers; both always agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from jetspark.wire.errors import ProtocolError
from jetspark.wire.untrusted import parse_number

__all__ = [
    "Control",
    "Err",
    "Frame",
    "FrameBuffer",
    "FrameLimits",
    "Info",
    "MessageLine",
    "MsgFrame",
    "Ok",
    "Parser",
    "Ping",
    "Pong",
    "parse_control",
    "parse_message_line",
    "pub",
    "sub",
    "unsub",
]

CRLF: Final = b"\r\n"
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_CR: Final = CRLF[0]
_MESSAGE_VERBS: Final = (b"MSG ", b"HMSG ")


class FrameLimits(NamedTuple):
    """Limits of the frames that a server may send.

    Attributes
    ----------
    line
        Longest control line in bytes. INFO lists the servers of a cluster and is by far the longest.
    size
        Largest header block and payload together, in bytes. nats-server refuses to start with more than 64 MiB.
    """

    line: int = 1 << 20
    size: int = (64 << 20) + (1 << 20)


class MsgFrame(NamedTuple):
    """A message. `header` is the raw block with its version line, empty for MSG."""

    subject: bytes
    sid: int
    reply: bytes
    header: bytes
    payload: bytes


class Info(NamedTuple):
    """INFO of the server, as JSON."""

    json: bytes


class Err(NamedTuple):
    """An error of the server, without its quotes."""

    text: str


class Ping(NamedTuple):
    """A PING of the server, which expects a PONG."""


class Pong(NamedTuple):
    """The answer to a PING of the client."""


class Ok(NamedTuple):
    """The answer to a command in verbose mode."""


Control = Info | Err | Ping | Pong | Ok
Frame = MsgFrame | Control


class MessageLine(NamedTuple):
    """Control line of a message: its words and its sizes in bytes. `header_size` is 0 for MSG."""

    subject: bytes
    sid: int
    reply: bytes
    header_size: int
    size: int


def _parse_number(token: bytes, line: bytes) -> int:
    if (number := parse_number(token)) is not None:
        return number
    raise ProtocolError(f"a value is not a 64-bit number in the control line {_quote_line(line)}")


def _quote_line(line: bytes) -> str:
    text = line[:120].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(line) > 120 else text)


def parse_message_line(line: bytes, limits: FrameLimits = FrameLimits()) -> MessageLine:  # noqa: B008 (immutable)
    """Read a control line that begins with `MSG ` or `HMSG `, without its line end.

    Raises
    ------
    ProtocolError
        Words are missing, empty or too many; a number is not a number or is over 64 bits; the sizes contradict each
        other or are over the limit.
    """
    words = line.split(b" ")
    with_header = words[0] == b"HMSG"
    count = len(words) - with_header
    # An empty reply means no reply: nats-server 2.15 writes one before its answer to CONSUMER.RESET.
    if not 4 <= count <= 5 or not all(words[:3]) or not all(words[-1 - with_header :]):
        raise ProtocolError(f"wrong number of words in the control line {_quote_line(line)}")
    header_size = _parse_number(words[-2], line) if with_header else 0
    size = _parse_number(words[-1], line)
    if header_size > size or size > limits.size:
        raise ProtocolError(f"impossible size in the control line {_quote_line(line)}")
    return MessageLine(words[1], _parse_number(words[2], line), words[3] if count == 5 else b"", header_size, size)


def parse_control(line: bytes) -> Control:
    """Read a control line that is not a message's, without its line end.

    Raises
    ------
    ProtocolError
        A verb that a server does not send.
    """
    verb, _, rest = line.partition(b" ")
    if verb == b"PING":
        return Ping()
    if verb == b"PONG":
        return Pong()
    if verb == b"+OK":
        return Ok()
    if verb == b"INFO":
        return Info(rest.strip())
    if verb == b"-ERR":
        return Err(rest.strip().strip(b"'").decode("utf-8", "replace"))
    raise ProtocolError(f"unknown control line {_quote_line(line)}")


class FrameBuffer:
    """Buffer of received bytes whose frame is not complete yet."""

    __slots__ = ("_frame_size", "_limits", "_pending", "_scanned")

    def __init__(self, limits: FrameLimits) -> None:
        self._limits = limits
        self._pending = bytearray()  # begins with a frame's start
        self._frame_size = 0  # size of the frame at the head of the tail, 0 when not known
        self._scanned = 0  # bytes of the tail that hold no line feed

    def _may_hold_frame(self) -> bool:
        """Return whether the tail may hold a whole frame. Examines each byte once, however small the pieces are."""
        tail = self._pending
        if self._frame_size:
            return len(tail) >= self._frame_size
        if tail.find(b"\n", self._scanned) >= 0:
            return True
        self._scanned = len(tail)
        if self._scanned > self._limits.line + 1:  # one may be the carriage return
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        return False


class Parser(FrameBuffer):
    """Scalar parser: bytes in, frames out.

    Parameters
    ----------
    limits
        Largest line and frame; a larger one is a ProtocolError.
    """

    __slots__ = ("_at", "_buffer")

    def __init__(self, limits: FrameLimits = FrameLimits()) -> None:  # noqa: B008 (immutable)
        super().__init__(limits)
        self._buffer = b""  # `_frames` reads these bytes, from `_at` on; the tail follows them
        self._at = 0

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """Yield the frames that `data` completes. The next call's iterator yields frames that were not taken.

        Raises
        ------
        ProtocolError
            The bytes are not the NATS protocol; the parser cannot be used any more. It has yielded the frames before
            the fault.
        """
        if self._at < len(self._buffer):
            self._pending[:0] = memoryview(self._buffer)[self._at :]
            self._buffer, self._at = b"", 0
            self._frame_size = self._scanned = 0
        self._pending += data
        return self._frames()

    @property
    def unread(self) -> bytes:
        """Bytes that follow the last yielded frame; another reader of the connection continues with them."""
        return self._buffer[self._at :] + self._pending

    def _frames(self) -> Iterator[Frame]:
        if not self._may_hold_frame():
            return
        buffer = self._buffer = bytes(self._pending)
        self._pending.clear()
        self._frame_size = self._scanned = at = self._at = 0
        while (feed := buffer.find(b"\n", at)) >= 0:
            line = self._line(buffer, at, feed)
            if line.startswith(_MESSAGE_VERBS):
                subject, sid, reply, header_size, size = parse_message_line(line, self._limits)
                begin = feed + 1
                end = begin + size
                if len(buffer) < end + 2:
                    self._frame_size = end + 2 - at
                    break
                if not buffer.startswith(CRLF, end):
                    raise ProtocolError(f"no CR LF after the payload of {_quote_line(line)}")
                middle = begin + header_size
                self._at = at = end + 2
                yield MsgFrame(subject, sid, reply, buffer[begin:middle], buffer[middle:end])
            else:
                frame = parse_control(line)
                self._at = at = feed + 1
                yield frame
            if self._buffer is not buffer:  # `feed` was called meanwhile: its iterator has the rest
                return
        self._pending[:0] = memoryview(buffer)[at:]
        self._buffer, self._at = b"", 0
        self._may_hold_frame()

    def _line(self, buffer: bytes, at: int, feed: int) -> bytes:
        """Return the control line between its start and its line feed."""
        line = buffer[at : feed - 1]
        if feed == at or buffer[feed - 1] != _CR:
            raise ProtocolError(f"a line ends with LF instead of CR LF: {_quote_line(buffer[at:feed])}")
        if len(line) > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        return line


def pub(subject: bytes, payload: bytes, *, reply: bytes = b"", header: bytes = b"") -> bytes:
    """Return a PUB, or an HPUB if there is a header block. Subjects are not checked here."""
    words = [b"HPUB" if header else b"PUB", subject]
    if reply:
        words.append(reply)
    if header:
        words.append(b"%d" % len(header))
    words.append(b"%d" % (len(header) + len(payload)))
    return b"%b\r\n%b%b\r\n" % (b" ".join(words), header, payload)


def sub(subject: bytes, sid: int, *, queue: bytes = b"") -> bytes:
    """Return a SUB, in a queue group if one is given."""
    return b"SUB %b %b %d\r\n" % (subject, queue, sid) if queue else b"SUB %b %d\r\n" % (subject, sid)


def unsub(sid: int, max_msgs: int = 0) -> bytes:
    """Return an UNSUB: at once, or after `max_msgs` messages in total."""
    return b"UNSUB %d %d\r\n" % (sid, max_msgs) if max_msgs else b"UNSUB %d\r\n" % sid
