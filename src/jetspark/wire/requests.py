"""Requests over one shared inbox: a subscription to `<inbox>.*`, and a token for each request.

There is no limit on what waits here (R41): a reply goes to the one who asked or, when nobody waits for it any more, is
dropped. What is under way when the session is lost fails at once, as its reply may have been lost with it.
"""

from __future__ import annotations

from collections.abc import Callable

from jetspark.wire.errors import Error, NoRespondersError
from jetspark.wire.messages import Message

__all__ = ["Requests", "Settle", "no_responders"]

Settle = Callable[[Message | Error], None]
"""Told the reply, or why there is none."""


def no_responders(message: Message) -> bool:
    """Whether a reply is the server's word that nobody listens (status 503)."""
    status = message.status if message.raw_header else None
    return status is not None and status.code == 503


class Requests:
    """The requests under way on one inbox.

    Attributes
    ----------
    inbox
        Subject of the subscription without its last token.
    """

    __slots__ = ("_count", "_prefix", "_settle", "inbox")

    def __init__(self, inbox: str) -> None:
        self.inbox = inbox
        self._prefix = inbox.encode() + b"."
        self._settle: dict[bytes, tuple[str, Settle]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._settle)

    def begin(self, subject: str, settle: Settle) -> tuple[bytes, bytes]:
        """Register a request; returns its token and its reply subject."""
        self._count += 1
        token = b"%d" % self._count
        self._settle[token] = (subject, settle)
        return token, self._prefix + token

    def forget(self, token: bytes) -> None:
        """Nobody waits for that reply any more."""
        self._settle.pop(token, None)

    def deliver(self, message: Message) -> None:
        """A message on the inbox."""
        waiting = self._settle.pop(message.raw_subject[len(self._prefix) :], None)
        if waiting is None:
            return
        subject, settle = waiting
        settle(NoRespondersError(f"nobody listens on {subject!r}") if no_responders(message) else message)

    def fail(self, error: Error, subject: str | None = None) -> None:
        """None of the requests (of those to the subject) gets a reply any more."""
        for token, (target, settle) in list(self._settle.items()):
            if subject is None or target == subject:
                del self._settle[token]
                settle(error)
