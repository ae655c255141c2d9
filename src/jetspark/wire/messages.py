"""A received message: raw bytes, decoded when asked for.

Nearly every program looks at the payload, most at the subject, few at the headers. So the read loop cuts the frame into
four byte strings and makes one object, in C, that the garbage collector need not look at; the rest happens here.
"""

from __future__ import annotations

import msgspec

from jetspark.wire.headers import Headers, Status, parse, parse_status

__all__ = ["Message"]


class Message(msgspec.Struct, gc=False, eq=False):
    """A message as it came.

    Attributes
    ----------
    raw_subject, raw_reply, raw_header
        Bytes of the frame; the header block with its version line, empty where there is none.
    payload
        The content.
    owner
        The connection it came over, for answers. Not the subscription: as the collector does not look at messages, a
        subscription that is forgotten with messages in it must not be in a cycle with them.
    """

    raw_subject: bytes
    raw_reply: bytes
    raw_header: bytes
    payload: bytes
    owner: object
    _headers: Headers | None = None

    @property
    def subject(self) -> str:
        """Subject it was published to."""
        return self.raw_subject.decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        """Where an answer is wanted; empty if none is."""
        return self.raw_reply.decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> Headers:
        """The headers (ADR-4), empty where there are none. Parsed at the first call, the same object after that."""
        if self._headers is None:
            self._headers = parse(self.raw_header)
        return self._headers

    @property
    def status(self) -> Status | None:
        """The inline status of a message of the server's own: it has a code and no payload (WIR-03, WIR-06)."""
        return parse_status(self.raw_header) if self.raw_header and not self.payload else None

    def __len__(self) -> int:
        return len(self.payload)

    def __bool__(self) -> bool:
        return True  # a message with no payload is one all the same

    def __repr__(self) -> str:
        reply = f" reply={self.reply!r}" if self.raw_reply else ""
        header = f" headers={len(self.raw_header)} B" if self.raw_header else ""
        return f"<{type(self).__name__} {self.subject!r}{reply}{header} payload={len(self.payload)} B>"
