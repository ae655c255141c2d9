"""A message of the blocking front: a `JetStreamMessage` with `respond` and the acknowledgements.

Made by `tools/make_sync.py` from `jetspark.aio.message`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import cast

from jetspark.jetstream.ack import ACK, ACK_PREFIX, IN_PROGRESS, nak_payload, term_payload
from jetspark.jetstream.message import JetStreamMessage, connection_dropped, not_acknowledged
from jetspark.sync._interfaces import AckSender
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

    def respond(self, payload: Payload = b"", *, headers: HeadersLike | None = None) -> None:
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
                sender.wait_writable()

    def ack(self) -> None:
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
                sender.wait_writable()

    def ack_sync(self, timeout: float = 5.0) -> None:
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
                sender.request_ack(self.reply, ACK, timeout)
            except NoRespondersError:
                raise not_acknowledged(self) from None
            except ReferenceError:
                raise connection_dropped() from None
            self._connection = None

    def nak(self, delay: float = 0.0) -> None:
        """Ask for redelivery.

        Parameters
        ----------
        delay
            Seconds until the redelivery; 0 means at once (ACK-02).
        """
        self._send_ack(nak_payload(round(delay * 1e9)))

    def term(self, reason: str = "") -> None:
        """Ask the server never to deliver it again.

        Parameters
        ----------
        reason
            Text for the advisory that the server publishes (ACK-03).
        """
        self._send_ack(term_payload(reason))

    def in_progress(self) -> None:
        """Report that the message is still being processed: its `ack_wait` starts again. May be repeated."""
        self._check_ackable()
        sender = cast("AckSender | None", self._connection)
        if sender is not None:
            try:
                full = sender.send_reply(self.raw_reply, IN_PROGRESS)
            except ReferenceError:
                raise connection_dropped() from None
            if full:
                sender.wait_writable()

    def _send_ack(self, payload: bytes) -> None:
        self._check_ackable()
        if (sender := cast("AckSender | None", self._connection)) is not None:
            try:
                full = sender.send_reply(self.raw_reply, payload)
            except ReferenceError:
                raise connection_dropped() from None
            self._connection = None  # the answer is queued, even if the wait for the transport is cancelled
            if full:
                sender.wait_writable()
