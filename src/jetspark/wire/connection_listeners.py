"""Interfaces of the parts of a client that depend on the sessions of a connection."""

from typing import Protocol

from jetspark.wire.errors import Error

__all__ = ["ReplyListener", "SessionListener", "TimedSender"]


class ReplyListener(Protocol):
    """An object that waits for answers on its own subscription and must know when no answer can come."""

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session; or, with a subject, that the user may not publish to this subject."""


class TimedSender(Protocol):
    """An object whose frames must not be sent after their timeout."""

    def expire_late(self) -> None:
        """Withdraw the frames whose timeout has passed. Called before each send."""


class SessionListener(Protocol):
    """An object that must send something again in each session."""

    def on_session_restored(self) -> None:
        """Send again. Another session is open, its subscriptions are restored, and frames go out at once."""
