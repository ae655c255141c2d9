"""The protocols by which the parts of the asyncio front know each other, and the way from a handle to its core.

A handle is an object that users hold, such as a connection or a subscription. Its core does the work and is for this
package only, so the public names of a handle are all that a user sees.
"""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

from jetspark.wire.errors import Error
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload

__all__ = ["AckSender", "Cancellable", "Drainable", "HasCore", "PendingPublishes", "RequestTimer", "core_of"]

C = TypeVar("C")


class HasCore(Generic[C]):
    """A handle. Its core does the work."""

    def __init__(self, core: C) -> None:
        self._core = core


def core_of(handle: HasCore[C]) -> C:
    """Return the core of a handle, which the blocking front uses directly."""
    return handle._core  # noqa: SLF001 (the only look into a handle from outside)


class AckSender(Protocol):
    """The connection of a message: it sends acknowledgements and replies."""

    def send_reply(self, reply: bytes, payload: bytes) -> bool:
        """Queue a message to a reply subject in its received form; return whether to wait for `wait_writable`."""

    def queue_response(self, reply: bytes, payload: Payload, headers: HeadersLike | None) -> bool:
        """Do the same as `send_reply`, with headers and for any kind of payload."""

    async def wait_writable(self) -> None:
        """Wait until the transport accepts more data."""

    async def request_ack(self, subject: str, payload: bytes, timeout: float) -> Message:  # noqa: ASYNC109
        """Send an acknowledgement and return the answer."""


class Cancellable(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Do nothing when the time comes."""


class RequestTimer(Cancellable, Protocol):
    """A timer that ends a request, and does more before that."""

    def start(self, answered: asyncio.Future[Message], subject: str, timeout: float) -> None:
        """Let the request fail after so many seconds."""


class Drainable(Protocol):
    """An object that receives messages and can be drained, such as the core of a subscription."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def stop_receiving(self) -> None:
        """Ask the server to send nothing more."""

    async def wait_drained(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled."""

    def discard(self, error: Error) -> int:
        """End now, as the drain took too long; drop the messages that wait, and return their number."""


class PendingPublishes(Protocol):
    """Publishes whose acknowledgements are awaited."""

    @property
    def pending(self) -> int:
        """Number of publishes that are not acknowledged yet."""

    async def wait_completed(self, timeout: float | None) -> None:  # noqa: ASYNC109
        """Wait until every publish is acknowledged or has failed."""
