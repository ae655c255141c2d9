"""The state that a subscription shows, shared by the asyncio and the blocking API."""

from __future__ import annotations

from jetspark.wire.errors import Error
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["SubscriptionInfo"]


class SubscriptionInfo:
    """The state of a subscription, which its subscription keeps."""

    _sub: SubscriptionState

    @property
    def subject(self) -> str:
        """Subject that it listens to."""
        return self._sub.subject.decode()

    @property
    def queue(self) -> str:
        """Queue group, empty if none."""
        return self._sub.queue.decode()

    @property
    def closed(self) -> bool:
        """Whether no more messages will come; messages may still wait."""
        return self._sub.ended

    @property
    def error(self) -> Error | None:
        """Error by which the server or the loss of the connection ended it, or None."""
        return self._sub.error

    @property
    def received(self) -> int:
        """Messages received so far, dropped ones included."""
        return self._sub.received

    @property
    def dropped(self) -> int:
        """Messages dropped because the subscription was full. An ordered subscription reads them again."""
        return self._sub.dropped

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes of headers and payload."""
        return len(self._sub.pending), self._sub.pending_bytes
