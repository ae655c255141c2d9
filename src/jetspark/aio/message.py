"""A message of the asyncio API: a `JetStreamMessage` with `respond` and the acknowledgements."""

from __future__ import annotations

from typing import cast

from jetspark.aio._interfaces import AckSender
from jetspark.jetstream.ack import ACK, ACK_PREFIX, IN_PROGRESS, nak_payload, term_payload
from jetspark.jetstream.message import JetStreamMessage, connection_dropped, not_acknowledged
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.errors import BadSubjectError, NoRespondersError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["Msg"]


@checks_arguments(unchecked=("respond",))
class Msg(JetStreamMessage, gc=False, eq=False):
    """A received message. Subject, reply, headers and metadata are decoded when they are first used.

    The acknowledgements are for messages that a JetStream consumer delivered. After `ack`, `nak` or `term`, and on
    consumers with ack policy none, they all do nothing (ACK-04, ACK-08). If one cannot be sent, it raises and the
    message stays open (ACK-06).
    """

    async def respond(self, payload: Payload = b"", *, headers: HeadersLike | None = None) -> None:
        """Publish to the message's reply subject. Does nothing if an acknowledgement would do nothing.

        Raises
        ------
        BadSubjectError
            The message has no reply subject, or one that belongs to an API or to the system.
        """
        if not self.raw_reply:
            raise BadSubjectError(f"the message on {self.subject!r} has no reply subject")
        sender = cast("AckSender | None", self._connection)
        if sender is not None:
            try:
                full = sender.queue_response(self.raw_reply, payload, headers)
            except ReferenceError:
                raise connection_dropped() from None
            if full:
                await sender.wait_writable()

    async def ack(self) -> None:
        """Acknowledge the message. The ack is queued when this returns; `ack_sync` waits for the server.

        Raises
        ------
        InvalidAckError
            No JetStream consumer delivered it.
        BadSubjectError
            Its reply subject only begins like an ack subject.
        ConnectionClosedError, OutboundBufferLimitError
            The ack cannot be sent.
        """
        if not self.raw_reply.startswith(ACK_PREFIX):  # a copy of `_send_ack`, because this call is frequent
            self._check_ackable()
        sender = cast("AckSender | None", self._connection)
        if sender is not None:
            try:
                full = sender.send_reply(self.raw_reply, ACK)
            except ReferenceError:
                raise connection_dropped() from None
            self._connection = None
            if full:
                await sender.wait_writable()

    async def ack_sync(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Acknowledge the message, and wait until the server has confirmed it (ACK-07).

        Parameters
        ----------
        timeout
            Seconds.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Whether the server has the ack is not known; it can be sent again.
        NoRespondersError
            The consumer is gone.
        """
        self._check_ackable()
        if (sender := cast("AckSender | None", self._connection)) is not None:
            try:
                await sender.request_ack(self.reply, ACK, timeout)
            except NoRespondersError:
                raise not_acknowledged(self) from None
            except ReferenceError:
                raise connection_dropped() from None
            self._connection = None

    async def nak(self, delay: float = 0.0) -> None:
        """Ask for redelivery.

        Parameters
        ----------
        delay
            Seconds until the redelivery; 0 means at once (ACK-02).
        """
        await self._send_ack(nak_payload(round(delay * 1e9)))

    async def term(self, reason: str = "") -> None:
        """Ask the server never to deliver it again.

        Parameters
        ----------
        reason
            Text for the advisory that the server publishes (ACK-03).
        """
        await self._send_ack(term_payload(reason))

    async def in_progress(self) -> None:
        """Report that the message is still being processed: its `ack_wait` starts again. May be repeated."""
        self._check_ackable()
        sender = cast("AckSender | None", self._connection)
        if sender is not None:
            try:
                full = sender.send_reply(self.raw_reply, IN_PROGRESS)
            except ReferenceError:
                raise connection_dropped() from None
            if full:
                await sender.wait_writable()

    async def _send_ack(self, payload: bytes) -> None:
        self._check_ackable()
        if (sender := cast("AckSender | None", self._connection)) is not None:
            try:
                full = sender.send_reply(self.raw_reply, payload)
            except ReferenceError:
                raise connection_dropped() from None
            self._connection = None  # the answer is queued, even if the wait for the transport is cancelled
            if full:
                await sender.wait_writable()
