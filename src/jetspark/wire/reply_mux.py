"""Requests over one shared inbox: a subscription to `<inbox>.*`, and a random token for each request.

The number of waiting requests has no limit (R41). A reply goes to its caller; it is dropped if the caller does not wait
any more. When the session is lost, all waiting requests fail at once, as their replies may be lost too.
"""

from __future__ import annotations

from collections.abc import Callable

from jetspark.wire.errors import Error, NoRespondersError
from jetspark.wire.messages import Message
from jetspark.wire.reply_tokens import new_tokens
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["ReplyCallback", "ReplyMux", "is_no_responders"]

ReplyCallback = Callable[[Message | Error], bool | None]
"""Called with the reply, or with the error why there is none. It returns True to wait for another reply."""


def is_no_responders(message: Message) -> bool:
    """Return whether a reply is the server's no-responders status (503)."""
    status = message.status if message.raw_header else None
    return status is not None and status.code == 503


class ReplyMux:
    """The waiting requests of one inbox.

    Attributes
    ----------
    inbox
        Subject of the subscription without its last token.
    unmatched_replies
        Number of replies that no request waits for: late, second or forged ones. They are dropped.
    """

    __slots__ = ("_callbacks", "_next_token", "_prefix", "_subscription", "inbox", "unmatched_replies")

    def __init__(self, inbox: str) -> None:
        self.inbox = inbox
        self._prefix = inbox.encode() + b"."
        self._callbacks: dict[bytes, tuple[str, ReplyCallback]] = {}
        self._next_token = new_tokens()
        self.unmatched_replies = 0
        self._subscription: SubscriptionState | None = None

    def __len__(self) -> int:
        return len(self._callbacks)

    def ensure_subscribed(self, subscribe: Callable[[str], SubscriptionState]) -> None:
        """Subscribe to the inbox, unless that was done and the subscription has not ended."""
        if self._subscription is None or self._subscription.ended:
            self._subscription = subscribe(f"{self.inbox}.*")
            self._subscription.handler = self.deliver
            self._subscription.wake = self._on_subscription_ended
            self._subscription.waiting = True

    def _on_subscription_ended(self) -> None:
        if self._subscription is not None and self._subscription.error is not None:
            self.fail(self._subscription.error)

    def end_subscription(self) -> None:
        """Leave no reference cycle, as the connection is closed."""
        self._subscription = None

    def add_request(self, subject: str, on_reply: ReplyCallback) -> tuple[bytes, bytes]:
        """Register a request; return its token and its reply subject."""
        token = self._next_token()
        self._callbacks[token] = (subject, on_reply)
        return token, self._prefix + token

    def remove_request(self, token: bytes) -> None:
        """Remove a request whose caller does not wait any more."""
        self._callbacks.pop(token, None)

    def deliver(self, message: Message) -> None:
        """Handle a message on the inbox."""
        token = message.raw_subject[len(self._prefix) :]
        waiting = self._callbacks.pop(token, None)
        if waiting is None:
            self.unmatched_replies += 1
            return
        subject, settle = waiting
        if is_no_responders(message):
            settle(NoRespondersError(f"nobody listens on {subject!r} (503, no responders)"))
        elif settle(message):
            self._callbacks[token] = waiting

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Let all requests, or only those to `subject`, fail with an error."""
        for token, (target, settle) in list(self._callbacks.items()):
            if subject is None or target == subject:
                del self._callbacks[token]
                settle(error)
