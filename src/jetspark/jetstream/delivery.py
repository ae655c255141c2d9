"""A message that a JetStream consumer delivered: what `jetspark.wire.messages` gives, its metadata, and its mark.

The mark says whether an acknowledgement may still go out. It costs nothing where messages are made: the owner, over
which acknowledgements are sent, is taken off a message once it is settled, and consumers without acknowledgement give
their messages none in the first place (ACK-04, ACK-08).
"""

from __future__ import annotations

from jetspark.jetstream.ack import AckMetadata, check_ack_subject, parse_ack_subject
from jetspark.wire.messages import Message

__all__ = ["Delivery"]


class Delivery(Message, gc=False, eq=False):
    """A message with what its ack subject tells."""

    _metadata: AckMetadata | None = None

    @property
    def metadata(self) -> AckMetadata:
        """Place in stream and consumer, time, deliveries. Read from the reply subject at the first call.

        Raises
        ------
        InvalidAckError
            No JetStream consumer delivered the message (JSA-03).
        """
        if self._metadata is None:
            self._metadata = parse_ack_subject(self.reply)
        return self._metadata

    @property
    def settled(self) -> bool:
        """No acknowledgement goes out any more: a terminal one did, or the consumer wants none."""
        return self.owner is None

    def _settle(self) -> None:
        """A terminal acknowledgement went out: every later one is silently left out (ACK-04)."""
        self.owner = None

    def _check_ackable(self) -> None:
        """Raise InvalidAckError when no JetStream consumer delivered the message."""
        check_ack_subject(self.raw_reply)
