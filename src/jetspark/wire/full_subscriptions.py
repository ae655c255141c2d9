"""Full subscriptions: new messages are dropped and reported, or reading pauses (`Overflow`)."""

from __future__ import annotations

from jetspark.wire.errors import SlowConsumerError
from jetspark.wire.events import SlowConsumer
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["FullSubscriptions"]


class FullSubscriptions:
    """The full subscriptions of a connection.

    Attributes
    ----------
    paused
        Those for which reading must pause.
    """

    def __init__(self) -> None:
        self.paused: set[SubscriptionState] = set()

    def add(self, sub: SubscriptionState, then: str) -> SlowConsumer | None:
        """Handle a message for a full subscription; return the event to report, if there is one.

        A subscription that drops is reported once each time that it becomes full; `then` says what follows.
        """
        known = sub.over_limit
        sub.over_limit = sub.notify_on_take = True
        if sub.overflow == "pause":
            self.paused.add(sub)
            return None
        if known:
            return None
        subject = sub.subject.decode(errors="replace")
        error = SlowConsumerError(
            f"subscription to {subject!r} is full: {len(sub.pending)} messages, {sub.pending_bytes} bytes; {then}",
            dropped=sub.dropped + 1,
        )
        return SlowConsumer(subject, error)

    def resume_if_below(self, sub: SubscriptionState) -> None:
        """Resume a subscription that was full, if the program took enough of its messages."""
        if sub.over_limit and sub.below_resume_level:
            sub.over_limit = sub.notify_on_take = False
            self.paused.discard(sub)
