"""Errors of the subscribe workflow (ADR-15): no stream, a consumer that cannot be bound to, missing deliveries.

All of `BindingError` say that the consumer exists and is not what was asked for; nothing was created or changed.
"""

from __future__ import annotations

from jetspark.wire.errors import Error

__all__ = [
    "BindingError",
    "ConsumerAlreadyBoundError",
    "ConsumerConfigMismatchError",
    "ConsumerResettingError",
    "ConsumerSequenceMismatchError",
    "DeliverGroupMismatchError",
    "DeliverGroupMissingError",
    "DeliverGroupRequiredError",
    "NoMatchingStreamError",
    "NotPullConsumerError",
    "NotPushConsumerError",
    "QueueFeatureError",
    "SubjectMismatchError",
]


class NoMatchingStreamError(Error, LookupError):
    """No stream, or more than one, stores the subject of a subscription (STR-02).

    Attributes
    ----------
    subject
        What was looked for.
    streams
        Names of the streams that store some of it, empty when none does.
    """

    def __init__(self, message: str = "", *, subject: str = "", streams: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.subject = subject
        self.streams = streams


class BindingError(Error, ValueError):
    """The consumer exists, and a subscription like that cannot be bound to it.

    Attributes
    ----------
    stream, consumer
        Names of the stream and of the consumer.
    """

    def __init__(self, message: str = "", *, stream: str = "", consumer: str = "") -> None:
        super().__init__(message)
        self.stream = stream
        self.consumer = consumer


class ConsumerAlreadyBoundError(BindingError):
    """Somebody else listens to the push consumer, and it has no deliver group to share with (BND-05)."""


class DeliverGroupRequiredError(BindingError):
    """The consumer has a deliver group, and the subscription names no queue (BND-06)."""


class DeliverGroupMismatchError(BindingError):
    """The consumer has another deliver group than the queue of the subscription (BND-06)."""


class DeliverGroupMissingError(BindingError):
    """The subscription names a queue, and the consumer has no deliver group (BND-06)."""


class QueueFeatureError(BindingError):
    """The consumer sends heartbeats or flow control, which would reach random members of the queue (BND-10)."""


class SubjectMismatchError(BindingError):
    """The consumer filters for another subject than the one subscribed to (BND-07)."""


class NotPullConsumerError(BindingError, TypeError):
    """The consumer pushes, and a pull consumer is needed (BND-08)."""


class NotPushConsumerError(BindingError, TypeError):
    """The consumer is pulled from, and a push consumer is needed (BND-08)."""


class ConsumerConfigMismatchError(BindingError):
    """The consumer is configured in another way than asked for; an existing consumer is not changed (BND-09).

    Attributes
    ----------
    differences
        Name of each field that differs, with the value asked for and the value that the consumer has.
    """

    def __init__(
        self,
        message: str = "",
        *,
        stream: str = "",
        consumer: str = "",
        differences: dict[str, tuple[object, object]] | None = None,
    ) -> None:
        super().__init__(message, stream=stream, consumer=consumer)
        self.differences = differences or {}


class ConsumerSequenceMismatchError(Error, RuntimeError):
    """Deliveries of a push consumer are missing (GAP-01, GAP-02). The subscription goes on.

    Attributes
    ----------
    expected
        Consumer sequence that should have come next.
    got
        Consumer sequence that came, or that the heartbeat names as the last one.
    stream_sequence
        Stream sequence of the last message that came before the gap: reading again starts behind it. 0 when there
        was none.
    """

    def __init__(self, message: str = "", *, expected: int = 0, got: int = 0, stream_sequence: int = 0) -> None:
        super().__init__(message)
        self.expected = expected
        self.got = got
        self.stream_sequence = stream_sequence


class ConsumerResettingError(Error, RuntimeError):
    """An ordered subscription is making its next consumer at the moment; there is none to ask about (ORD-09)."""
