"""The state that a subscription shows, shared by the asyncio and the blocking API."""

from __future__ import annotations

from jetspark.wire.errors import Error
from jetspark.wire.routes import Route

__all__ = ["Received"]


class Received:
    """The state of a subscription, which its route keeps."""

    _route: Route

    @property
    def subject(self) -> str:
        """Subject that it listens to."""
        return self._route.subject.decode()

    @property
    def queue(self) -> str:
        """Queue group, empty if none."""
        return self._route.queue.decode()

    @property
    def closed(self) -> bool:
        """Whether no more messages will come; messages may still wait."""
        return self._route.ended

    @property
    def error(self) -> Error | None:
        """Error by which the server or the loss of the connection ended it, or None."""
        return self._route.error

    @property
    def received(self) -> int:
        """Messages received so far, dropped ones included."""
        return self._route.received

    @property
    def dropped(self) -> int:
        """Messages dropped because the subscription was full. An ordered subscription reads them again."""
        return self._route.dropped

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes of headers and payload."""
        return len(self._route.pending), self._route.pending_bytes
