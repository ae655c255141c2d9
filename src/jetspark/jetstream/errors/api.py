"""Errors that the JetStream API reports in its replies (ADR-7).

An error is identified by its `err_code`, or else by its `code`; descriptions differ between servers. `codes` maps the
numbers to classes, `hints` to hints how to fix the error.
"""

from __future__ import annotations

import re
from typing import Final

from jetspark.jetstream.errors.hints import HINTS
from jetspark.wire.errors import Error
from jetspark.wire.untrusted import parse_number

__all__ = [
    "APIError",
    "AtomicPublishDisabledError",
    "BadRequestError",
    "BatchError",
    "BatchTooLargeError",
    "ConsumerConfigError",
    "ConsumerCreateError",
    "ConsumerDoesNotExistError",
    "ConsumerExistsError",
    "ConsumerNameInUseError",
    "ConsumerNotFoundError",
    "ConsumerOfflineError",
    "CounterError",
    "DuplicateInBatchError",
    "DuplicateInProcessError",
    "IncompleteBatchError",
    "InsufficientResourcesError",
    "InvalidPriorityGroupError",
    "JetStreamNotEnabledError",
    "JetStreamNotEnabledForAccountError",
    "JetStreamUnavailableError",
    "MaximumConsumersError",
    "MaximumStreamsError",
    "MessageNotFoundError",
    "MessageSizeExceedsMaximumError",
    "MessageTTLDisabledError",
    "MessageTTLInvalidError",
    "NotFoundError",
    "PublishExpectationError",
    "RequiredAPILevelError",
    "RollupError",
    "ScheduleError",
    "StreamConfigError",
    "StreamNameInUseError",
    "StreamNotFoundError",
    "StreamOfflineError",
    "StreamSealedError",
    "StreamStoreFailedError",
    "SubjectOverlapError",
    "TooManyRequestsError",
    "WorkQueueConsumerError",
    "WrongLastMsgIdError",
    "WrongLastSequenceError",
    "WrongStreamError",
]

_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d{1,20})(?!\d)", re.ASCII)


class APIError(Error, RuntimeError):
    """The server answered a request with an error.

    Attributes
    ----------
    code
        Class of the error, as in HTTP: 400, 404, 500, 503.
    err_code
        JetStream's number of the error, 0 if the server gave none.
    description
        Text of the server. Do not compare it: compare `err_code`.
    where
        Subject of the request, without its prefix, or the subject of the publish.
    """

    def __init__(
        self, code: int, err_code: int = 0, description: str = "", *, where: str = "", hint: str | None = None
    ) -> None:
        number = f"{err_code}/{code}" if err_code else str(code)
        text = f"{description or 'no description'} ({number})"
        if where:
            text = f"{where}: {text}"
        hint = HINTS.get(err_code) if hint is None else hint
        super().__init__(f"{text}; {hint}" if hint else text)
        self.code = code
        self.err_code = err_code
        self.description = description
        self.where = where


class NotFoundError(APIError, LookupError):
    """An object that the request names does not exist (404)."""


class BadRequestError(APIError, ValueError):
    """The request is wrong (400)."""


class JetStreamUnavailableError(APIError, ConnectionError):
    """JetStream cannot answer now (503): no leader, no quorum. A later retry may work."""

    transient = True


class JetStreamNotEnabledError(APIError, ConnectionError):
    """The server or the requested domain has no JetStream (10076, or no server answers)."""

    transient = True  # a server that starts answers so, too


class JetStreamNotEnabledForAccountError(JetStreamNotEnabledError, PermissionError):
    """The account may not use JetStream (10039)."""

    transient = False


class RequiredAPILevelError(APIError, NotImplementedError):
    """The server is too old for the request (10185)."""


class InsufficientResourcesError(APIError, OSError):
    """Storage, memory or the account's limits are used up (10002, 10023, 10028, 10047)."""


class TooManyRequestsError(APIError):
    """The stream gets too many requests, or too many batches are open (429)."""

    transient = True


class StreamNotFoundError(NotFoundError):
    """There is no such stream (10059)."""


class StreamNameInUseError(APIError, ValueError):
    """A stream of that name exists with another configuration (10058)."""


class StreamConfigError(APIError, ValueError):
    """The stream's configuration is refused, or may not be changed in this way (10052 and others)."""


class SubjectOverlapError(StreamConfigError):
    """Another stream already captures some of these subjects (10065)."""


class StreamSealedError(APIError, PermissionError):
    """The stream is sealed: messages can neither be added nor deleted (10109)."""


class StreamOfflineError(JetStreamUnavailableError):
    """The stream is offline: no server can serve it (10118, 10194)."""


class StreamStoreFailedError(APIError, OSError):
    """The stream could not store the message: a limit with discard policy `new`, or the disk (10077)."""


class MaximumStreamsError(APIError):
    """The account has reached its maximum number of streams (10027)."""


class MaximumConsumersError(APIError):
    """The stream or the account has reached its maximum number of consumers (10026)."""


class MessageNotFoundError(NotFoundError):
    """There is no such message: no match, deleted or expired (10037, 10043)."""


class MessageSizeExceedsMaximumError(APIError, ValueError):
    """The message with its headers is larger than the stream's `max_msg_size` (10054, 10097)."""


class ConsumerNotFoundError(NotFoundError):
    """There is no such consumer (10014)."""

    needs_recreation = True


class ConsumerDoesNotExistError(ConsumerNotFoundError):
    """A consumer to update does not exist (10149)."""


class ConsumerExistsError(APIError, ValueError):
    """A consumer of that name exists with another configuration (10148, 10105)."""


class ConsumerNameInUseError(ConsumerExistsError):
    """The consumer is in use by another subscriber (10013)."""


class ConsumerCreateError(APIError, ValueError):
    """The consumer could not be created or changed (10012), for instance because of a field that may not change."""


class ConsumerConfigError(APIError, ValueError):
    """The consumer's configuration is refused (10078 to 10139 and others)."""


class WorkQueueConsumerError(ConsumerConfigError):
    """A work-queue stream refuses this consumer: each message may have only one (10084, 10098 to 10101)."""


class ConsumerOfflineError(JetStreamUnavailableError):
    """The consumer is offline: no server can serve it (10119, 10195)."""


class InvalidPriorityGroupError(APIError, ValueError):
    """The consumer has no such priority group (10160)."""


class PublishExpectationError(APIError, ValueError):
    """The message was not stored, because an expectation in its headers is not met."""


class WrongStreamError(PublishExpectationError):
    """The subject belongs to another stream than expected (10060)."""


class WrongLastMsgIdError(PublishExpectationError):
    """The last message id is not the expected one (10070)."""


class WrongLastSequenceError(PublishExpectationError):
    """The last sequence of stream or subject is not the expected one (10071, 10164)."""

    @property
    def last_sequence(self) -> int | None:
        """The server's last sequence, None if its text does not contain it."""
        match = _SEQUENCE.search(self.description)
        return parse_number(match[1]) if match else None


class DuplicateInProcessError(APIError):
    """The servers of a replicated stream are storing a message with the same id at the moment (10158).

    This message was not stored. It is not known yet whether the first one will be. If the message is sent again a
    moment later, it is acknowledged as a duplicate, or stored.
    """

    transient = True


class MessageTTLDisabledError(APIError, ValueError):
    """The message has a time to live, but the stream does not allow it (10166)."""


class MessageTTLInvalidError(APIError, ValueError):
    """The message's time to live is not a number of seconds from 1, a duration or `never` (10165)."""


class RollupError(APIError, ValueError):
    """The roll-up header is wrong or not allowed (10111)."""


class CounterError(APIError, ValueError):
    """The counter message is wrong, or the stream has no counters (10168 to 10172)."""


class ScheduleError(APIError, ValueError):
    """The schedule of the message is wrong or not allowed by the stream (10188 to 10192, 10203, 10212, 10223)."""


class BatchError(APIError, ValueError):
    """The whole batch is refused; none of its messages was stored (10174 to 10211)."""


class AtomicPublishDisabledError(BatchError):
    """The stream does not allow atomic batches (10174)."""


class IncompleteBatchError(BatchError):
    """A message of the batch is missing, or the batch was dropped after ten seconds without a message (10176)."""


class BatchTooLargeError(BatchError):
    """The batch has more messages than the server accepts (10199)."""


class DuplicateInBatchError(BatchError):
    """A message id of the batch is already in the stream, or twice in the batch (10201)."""
