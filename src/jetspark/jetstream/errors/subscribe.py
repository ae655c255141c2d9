"""Errors of the subscribe workflow (ADR-15): no stream, a consumer that does not match, missing deliveries.

Each `BindingError` means that the consumer exists and does not match the subscription; nothing was created or changed.
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
    "StreamRecreatedError",
    "StreamUncheckedError",
    "SubjectMismatchError",
]


class NoMatchingStreamError(Error, LookupError):
    """No stream, or more than one, captures the subject of a subscription (STR-02).

    Attributes
    ----------
    subject
        Subject of the subscription.
    streams
        Names of the matching streams, empty if there are none.
    """

    def __init__(self, message: str = "", *, subject: str = "", streams: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.subject = subject
        self.streams = streams


class BindingError(Error, ValueError):
    """The consumer exists, but the subscription cannot bind to it.

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
    """Another subscription is bound to the push consumer, which has no deliver group (BND-05)."""


class DeliverGroupRequiredError(BindingError):
    """The consumer has a deliver group, but the subscription has no queue (BND-06)."""


class DeliverGroupMismatchError(BindingError):
    """The consumer's deliver group is not the queue of the subscription (BND-06)."""


class DeliverGroupMissingError(BindingError):
    """The subscription has a queue, but the consumer has no deliver group (BND-06)."""


class QueueFeatureError(BindingError):
    """The consumer sends heartbeats or flow control, which would reach random members of the queue (BND-10)."""


class SubjectMismatchError(BindingError):
    """The consumer's filter is not the subject of the subscription (BND-07)."""


class NotPullConsumerError(BindingError, TypeError):
    """The consumer is a push consumer, but a pull consumer is needed (BND-08)."""


class NotPushConsumerError(BindingError, TypeError):
    """The consumer is a pull consumer, but a push consumer is needed (BND-08)."""


class ConsumerConfigMismatchError(BindingError):
    """The consumer's configuration differs from the requested one; an existing consumer is not changed (BND-09).

    Attributes
    ----------
    differences
        Name of each field that differs, with the requested value and the value of the consumer.
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
    """Deliveries of a push consumer are missing (GAP-01, GAP-02). The subscription continues.

    Attributes
    ----------
    expected
        Consumer sequence that was expected next.
    got
        Consumer sequence that arrived, or that the heartbeat reports as the last one.
    stream_sequence
        Stream sequence of the last message before the gap; a new read should start after it. 0 if there was none.
    """

    def __init__(self, message: str = "", *, expected: int = 0, got: int = 0, stream_sequence: int = 0) -> None:
        super().__init__(message)
        self.expected = expected
        self.got = got
        self.stream_sequence = stream_sequence


class StreamRecreatedError(Error, RuntimeError):
    """The stream of an ordered reader was deleted and created again, or an older state of it was restored.

    Attributes
    ----------
    stream
        Name of the stream.
    last_sequence
        Sequence of the former stream up to which the reader has read.
    """

    def __init__(self, message: str = "", *, stream: str = "", last_sequence: int = 0) -> None:
        super().__init__(message)
        self.stream = stream
        self.last_sequence = last_sequence


class StreamUncheckedError(Error, RuntimeError):
    """An ordered reader cannot see whether its stream was created again; it reads on.

    Attributes
    ----------
    stream
        Name of the stream.
    """

    def __init__(self, message: str = "", *, stream: str = "") -> None:
        super().__init__(message)
        self.stream = stream


class ConsumerResettingError(Error, RuntimeError):
    """An ordered subscription is creating its next consumer, so there is no consumer info now (ORD-09)."""
