"""A message that a JetStream consumer delivered: a `Message` with metadata and an acknowledgement state.

The state says whether an acknowledgement may still be sent. It costs nothing when messages are created: it is the
connection that sends acknowledgements. A settled message has none, nor have messages of consumers without
acknowledgements (ACK-04, ACK-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from jetspark.jetstream.ack import AckMetadata, check_ack_subject, parse_ack_subject
from jetspark.jetstream.config import AckPolicy
from jetspark.jetstream.errors.hints import CONSUMER_GONE
from jetspark.wire.errors import BadSubjectError, ConnectionClosedError, Error, InvalidAckError, NoRespondersError
from jetspark.wire.messages import Message

__all__ = [
    "UNSENDABLE",
    "JetStreamMessage",
    "ack_all_error",
    "connection_dropped",
    "message_size",
    "not_acknowledged",
    "settle",
    "split_by_ack_policy",
]

M = TypeVar("M", bound="JetStreamMessage")

UNSENDABLE: Final = (InvalidAckError, BadSubjectError)
"""Errors of an acknowledgement because of its message; another message can still be acknowledged."""


class JetStreamMessage(Message, gc=False, eq=False):
    """A message with the metadata of its ack subject."""

    _metadata: AckMetadata | None = None

    @property
    def metadata(self) -> AckMetadata:
        """Position in stream and consumer, time, number of deliveries. Parsed at the first access.

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
        """Whether no acknowledgement is sent any more: a terminal one was sent, or the consumer needs none."""
        return self._connection is None

    def _check_ackable(self) -> None:
        """Raise InvalidAckError if no JetStream consumer delivered the message."""
        check_ack_subject(self.raw_reply)


def not_acknowledged(message: JetStreamMessage) -> NoRespondersError:
    """Return the error of an acknowledgement that nobody takes (503)."""
    where = f"{message.metadata.stream}/{message.metadata.consumer}"
    return NoRespondersError(
        f"{where}: nobody takes the acknowledgement (503): {CONSUMER_GONE}, or it has no leader now"
    )


def connection_dropped() -> ConnectionClosedError:
    """Return the error of a message whose connection does not exist any more."""
    return ConnectionClosedError("nobody held the connection of this message any more, so it was closed")


def message_size(message: Message) -> int:
    """Bytes of a message as the server counts them against `max_bytes` (SIZ-01, SIZ-02)."""
    return len(message.raw_subject) + len(message.raw_reply) + len(message.raw_header) + len(message.payload)


def settle(message: JetStreamMessage) -> None:
    """Settle a message that another acknowledgement covers: later ones are silently dropped (ACK-04)."""
    message._connection = None  # noqa: SLF001 (not a method, because users must not call it)


def split_by_ack_policy(messages: Iterable[M], policy: AckPolicy | None) -> tuple[list[M], list[M]]:
    """Split messages into those that need an ack of their own, and those that one of these acks covers.

    With policy `all` the ack of the highest sequence covers the others, and comes first. A message that no consumer
    delivered is covered by no other one. Settled messages are in neither list.
    """
    unsettled = [message for message in messages if not message.settled]
    if policy is not AckPolicy.ALL or not unsettled:
        return unsettled, []
    sequences = {id(message): _stream_sequence(message) for message in unsettled}
    last = max(unsettled, key=lambda message: sequences[id(message)])
    others = [message for message in unsettled if message is not last]
    invalid = [message for message in others if not sequences[id(message)]]
    return [last, *invalid], [message for message in others if sequences[id(message)]]


def _stream_sequence(message: JetStreamMessage) -> int:
    try:
        return message.metadata.stream_sequence
    except InvalidAckError:
        return 0  # its acknowledgement raises


def ack_all_error(errors: Sequence[Error], count: int) -> Error:
    """Return the error of acknowledgements of which some could not be sent. All others were."""
    if count == 1:
        return errors[0]
    kind = BadSubjectError if isinstance(errors[0], BadSubjectError) else InvalidAckError
    return kind(f"{len(errors)} of {count} messages could not be acknowledged, the others were: {errors[0]}")
