"""A received message: raw bytes that are decoded on access.

Nearly every program reads the payload, most read the subject, few read the headers. So the read loop only cuts the
frame into four byte strings and creates one object, in C, that the garbage collector does not track.
"""

from __future__ import annotations

import msgspec

from jetspark.wire.headers import Headers, Status, parse_header_block, parse_status

__all__ = ["Message"]


class Message(msgspec.Struct, gc=False, eq=False):
    """A received message.

    Attributes
    ----------
    raw_subject, raw_reply, raw_header
        Bytes of the frame. The header block has its version line; it is empty if the message has none.
    payload
        The content.
    _connection
        The connection that received it, used for answers. Not the subscription: the garbage collector does not track
        messages, so a reference cycle of a subscription and its messages would never be freed.
    """

    raw_subject: bytes
    raw_reply: bytes
    raw_header: bytes
    payload: bytes
    _connection: object
    _headers: Headers | None = None

    @property
    def subject(self) -> str:
        """Subject that the message was published to."""
        return self.raw_subject.decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        """Reply subject; empty if there is none."""
        return self.raw_reply.decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> Headers:
        """Headers (ADR-4), empty if there are none. Parsed at the first access; later accesses give the same object."""
        if self._headers is None:
            self._headers = parse_header_block(self.raw_header)
        return self._headers

    @property
    def status(self) -> Status | None:
        """Inline status of a message that the server itself sent; it has a code and no payload (WIR-03, WIR-06)."""
        return parse_status(self.raw_header) if self.raw_header and not self.payload else None

    def __len__(self) -> int:
        return len(self.payload)

    def __bool__(self) -> bool:
        return True  # also without a payload

    def __repr__(self) -> str:
        reply = f" reply={self.reply!r}" if self.raw_reply else ""
        header = f" headers={len(self.raw_header)} B" if self.raw_header else ""
        return f"<{type(self).__name__} {self.subject!r}{reply}{header} payload={len(self.payload)} B>"
