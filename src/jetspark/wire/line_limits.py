"""The limits of a message: those of its control line, which servers do not report, and of its payload.

A line over the limit makes the server close the connection, so it is refused before it is sent. If the limit of a
server is lower than expected, the longest line of the lost session is certainly over it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jetspark.wire.errors import MaxControlLineError, MaxPayloadError

__all__ = [
    "MAX_CONTROL_LINE",
    "MAX_QUOTED",
    "MIN_CONTROL_LINE",
    "SHORT_LINE",
    "MessageLimits",
    "line_too_long",
    "message_too_large",
]

MAX_CONTROL_LINE: Final = 4096
"""Default limit of nats-server, in bytes and without the verb."""
MIN_CONTROL_LINE: Final = 256
"""A server with a lower limit would not accept the CONNECT line."""
SHORT_LINE: Final = 128
"""Bytes of subjects in a line that no server refuses: the CONNECT line is longer."""
MAX_QUOTED: Final = 100
"""Bytes of a line that an error shows."""


class MessageLimits(NamedTuple):
    """The largest message that a server accepts.

    Attributes
    ----------
    payload
        Bytes of headers and payload.
    subject
        Bytes of the subject.
    """

    payload: int
    subject: int = MAX_CONTROL_LINE


def line_too_long(line: bytes, limit: int, *, size: int = 0) -> MaxControlLineError:
    """Return the error of a line, given without its verb. If it is cut, `size` is its size."""
    size = size or len(line)
    shown = line[:MAX_QUOTED].decode("utf-8", "backslashreplace") + ("..." if size > MAX_QUOTED else "")
    return MaxControlLineError(
        f"subject {shown!r}: its control line has {size} bytes, and the server accepts at most {limit}; "
        "use shorter subjects, or raise max_control_line of the server and of the connect options",
        size=size,
        limit=limit,
    )


def message_too_large(size: int, limit: int) -> MaxPayloadError:
    """Return the error of a message whose headers and payload are larger than the server accepts."""
    return MaxPayloadError(
        f"a message of {size} bytes (headers and payload) exceeds the server's max_payload of {limit}; "
        "send smaller messages, or raise max_payload",
        size=size,
        limit=limit,
    )
