"""Scalar parser and serialiser of the NATS client protocol: one frame at a time.

    INFO {json}                                  +OK
    MSG <subject> <sid> [reply] <size>           -ERR '<text>'
    HMSG <subject> <sid> [reply] <header> <size> PING, PONG

`Parser.feed` takes bytes as they come from the socket, cut anywhere, and gives the frames that are complete. It never
holds more than one frame's worth of bytes: control lines and sizes have limits, and what is over them is a
`ProtocolError`. The vectorised decoder (`jetspark.wire.vector`) does the same for whole buffers; both agree, always.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from jetspark.wire.errors import ProtocolError

__all__ = [
    "Control",
    "Err",
    "Frame",
    "Info",
    "Limits",
    "MessageLine",
    "Msg",
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


class Limits(NamedTuple):
    """What a server may send.

    Attributes
    ----------
    line
        Longest control line in bytes. INFO lists the servers of a cluster and is by far the longest.
    size
        Largest header block and payload together, in bytes. nats-server refuses to start with more than 64 MiB.
    """

    line: int = 1 << 20
    size: int = (64 << 20) + (1 << 20)


class Msg(NamedTuple):
    """A message. `header` is the raw block with its version line, empty for MSG."""

    subject: bytes
    sid: int
    reply: bytes
    header: bytes
    payload: bytes


class Info(NamedTuple):
    """What the server says of itself: JSON."""

    json: bytes


class Err(NamedTuple):
    """An error of the server, without its quotes."""

    text: str


class Ping(NamedTuple):
    """The server wants a PONG."""


class Pong(NamedTuple):
    """The answer to our PING."""


class Ok(NamedTuple):
    """The answer to a command in verbose mode."""


Control = Info | Err | Ping | Pong | Ok
Frame = Msg | Control


class MessageLine(NamedTuple):
    """Control line of a message: its words and its sizes in bytes. `header_size` is 0 for MSG."""

    subject: bytes
    sid: int
    reply: bytes
    header_size: int
    size: int


def _number(token: bytes, line: bytes) -> int:
    if not token.isdigit() or len(token) > 20:
        raise ProtocolError(f"not a number in the control line {_shown(line)}")
    return int(token)


def _check_one_line(line: bytes) -> None:
    if b"\n" in line:
        raise ProtocolError(f"a line feed inside the control line {_shown(line)}")


def _shown(line: bytes) -> str:
    text = line[:120].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(line) > 120 else text)


def parse_message_line(line: bytes, limits: Limits = Limits()) -> MessageLine:  # noqa: B008 (immutable)
    """Read a control line that begins with `MSG ` or `HMSG `, without its line end.

    Raises
    ------
    ProtocolError
        Words missing, empty or too many; sizes that are no numbers, contradict each other or are over the limit.
    """
    _check_one_line(line)
    verb, *words = line.split(b" ")
    sizes = 2 if verb == b"HMSG" else 1
    if len(words) not in {2 + sizes, 3 + sizes} or not all(words):
        raise ProtocolError(f"wrong number of words in the control line {_shown(line)}")
    header_size = _number(words[-2], line) if sizes == 2 else 0
    size = _number(words[-1], line)
    if header_size > size or size > limits.size:
        raise ProtocolError(f"impossible size in the control line {_shown(line)}")
    reply = words[2] if len(words) == 3 + sizes else b""
    return MessageLine(words[0], _number(words[1], line), reply, header_size, size)


def parse_control(line: bytes) -> Control:
    """Read a control line that is not a message's, without its line end.

    Raises
    ------
    ProtocolError
        A verb that a server does not send.
    """
    _check_one_line(line)
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
    raise ProtocolError(f"unknown control line {_shown(line)}")


class Parser:
    """Bytes in, frames out.

    Parameters
    ----------
    limits
        What is taken for possible; over it the stream of bytes is broken.
    """

    __slots__ = ("_limits", "_tail", "_wanted")

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 (immutable)
        self._limits = limits
        self._tail = bytearray()
        self._wanted = 0  # bytes the frame at the head of the tail needs, 0 when not known

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """Give the frames that `data` completes. Must be used up before the next call.

        Raises
        ------
        ProtocolError
            The bytes are not the NATS protocol; the parser is of no further use.
        """
        self._tail += data
        if len(self._tail) < self._wanted:
            return
        buffer = bytes(self._tail)
        self._tail.clear()
        self._wanted = 0
        at = 0
        while (eol := buffer.find(CRLF, at)) >= 0:
            if buffer.startswith((b"MSG ", b"HMSG "), at):
                self._check_length(eol - at)
                line = parse_message_line(buffer[at:eol], self._limits)
                begin = eol + 2
                end = begin + line.size
                if len(buffer) < end + 2:
                    self._wanted = end + 2 - at
                    break
                if buffer[end : end + 2] != CRLF:
                    raise ProtocolError(f"no line end behind the payload of {_shown(buffer[at:eol])}")
                middle = begin + line.header_size
                yield Msg(line.subject, line.sid, line.reply, buffer[begin:middle], buffer[middle:end])
                at = end + 2
            else:
                self._check_length(eol - at)
                yield parse_control(buffer[at:eol])
                at = eol + 2
        else:
            self._check_length(len(buffer) - at)
        self._tail += memoryview(buffer)[at:]

    def _check_length(self, length: int) -> None:
        if length > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")


def pub(subject: bytes, payload: bytes, *, reply: bytes = b"", header: bytes = b"") -> bytes:
    """A PUB, or an HPUB when there is a header block. Subjects are not checked here."""
    words = [b"HPUB" if header else b"PUB", subject]
    if reply:
        words.append(reply)
    if header:
        words.append(b"%d" % len(header))
    words.append(b"%d" % (len(header) + len(payload)))
    return b"%b\r\n%b%b\r\n" % (b" ".join(words), header, payload)


def sub(subject: bytes, sid: int, *, queue: bytes = b"") -> bytes:
    """A SUB, in a queue group when one is given."""
    return b"SUB %b %b %d\r\n" % (subject, queue, sid) if queue else b"SUB %b %d\r\n" % (subject, sid)


def unsub(sid: int, max_msgs: int = 0) -> bytes:
    """An UNSUB, at once or after that many messages in all."""
    return b"UNSUB %d %d\r\n" % (sid, max_msgs) if max_msgs else b"UNSUB %d\r\n" % sid
