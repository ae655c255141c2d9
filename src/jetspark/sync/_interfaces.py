"""The protocol by which a message of the blocking front knows its connection, and the base class of handles."""

from __future__ import annotations

from typing import Protocol

from jetspark.aio._interfaces import HasCore, core_of
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload

__all__ = ["AckSender", "HasCore", "core_of"]


class AckSender(Protocol):
    """The connection of a message: it sends acknowledgements and replies."""

    def send_reply(self, reply: bytes, payload: bytes) -> bool:
        """Queue a message to a reply subject in its received form; return whether to wait for `wait_writable`."""

    def queue_response(self, reply: bytes, payload: Payload, headers: HeadersLike | None) -> bool:
        """Do the same as `send_reply`, with headers and for any kind of payload."""

    def wait_writable(self) -> None:
        """Wait until the transport accepts more data."""

    def request_ack(self, subject: str, payload: bytes, timeout: float) -> Message:
        """Send an acknowledgement and return the answer."""
