"""Errors that the JetStream API reports in its replies (ADR-7).

The identity of such an error is its `err_code`, then its `code`; the description is for people and changes between
servers. Which class a number becomes is said in `codes`, what mends it in `hints`.
"""

from __future__ import annotations

import re
from typing import Final

from jetspark.jetstream.errors.hints import HINTS
from jetspark.wire.errors import Error

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

_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)", re.ASCII)


class APIError(Error, RuntimeError):
    """The server answered a request with an error.

    Attributes
    ----------
    code
        Class of the error, as in HTTP: 400, 404, 500, 503.
    err_code
        JetStream's number of the error, 0 when the server gave none.
    description
        Text of the server. Not an identity: compare `err_code`.
    where
        Subject of the request, without its prefix, or the subject of the publish.
    """

    def __init__(self, code: int, err_code: int = 0, description: str = "", *, where: str = "") -> None:
        number = f"{err_code}/{code}" if err_code else str(code)
        text = f"{description or 'no description'} ({number})"
        if where:
            text = f"{where}: {text}"
        hint = HINTS.get(err_code)
        super().__init__(f"{text}; {hint}" if hint else text)
        self.code = code
        self.err_code = err_code
        self.description = description
        self.where = where


class NotFoundError(APIError, LookupError):
    """Something that the request names is not there (404)."""


class BadRequestError(APIError, ValueError):
    """The server takes the request for wrong (400)."""


class JetStreamUnavailableError(APIError, ConnectionError):
    """JetStream cannot answer now (503): no leader, no quorum. Asking again later may help."""


class JetStreamNotEnabledError(APIError, ConnectionError):
    """The server, or the domain asked for, has no JetStream (10076, or nobody answers)."""


class JetStreamNotEnabledForAccountError(JetStreamNotEnabledError, PermissionError):
    """The account may not use JetStream (10039)."""


class RequiredAPILevelError(APIError, NotImplementedError):
    """The server is too old for what the request needs (10185)."""


class InsufficientResourcesError(APIError, OSError):
    """Storage, memory or the account's limits are used up (10002, 10023, 10028, 10047)."""


class TooManyRequestsError(APIError):
    """The stream is flooded, or too many batches are open (429)."""


class StreamNotFoundError(NotFoundError):
    """There is no such stream (10059)."""


class StreamNameInUseError(APIError, ValueError):
    """A stream of that name exists with another configuration (10058)."""


class StreamConfigError(APIError, ValueError):
    """The stream's configuration is refused, or may not be changed so (10052 and others)."""


class SubjectOverlapError(StreamConfigError):
    """Another stream takes some of these subjects already (10065)."""


class StreamSealedError(APIError, PermissionError):
    """The stream is sealed: nothing goes in or out (10109)."""


class StreamOfflineError(JetStreamUnavailableError):
    """The stream is offline: no server can serve it (10118, 10194)."""


class StreamStoreFailedError(APIError, OSError):
    """The stream could not store the message: a limit with discard policy `new`, or the disk (10077)."""


class MaximumStreamsError(APIError):
    """The account has as many streams as it may (10027)."""


class MaximumConsumersError(APIError):
    """The stream or the account has as many consumers as it may (10026)."""


class MessageNotFoundError(NotFoundError):
    """There is no such message: no match, deleted or expired (10037, 10043)."""


class MessageSizeExceedsMaximumError(APIError, ValueError):
    """The message with its headers is larger than the stream's `max_msg_size` (10054, 10097)."""


class ConsumerNotFoundError(NotFoundError):
    """There is no such consumer (10014)."""


class ConsumerDoesNotExistError(ConsumerNotFoundError):
    """An update was asked for and there is no such consumer (10149)."""


class ConsumerExistsError(APIError, ValueError):
    """A consumer of that name exists with another configuration (10148, 10105)."""


class ConsumerNameInUseError(ConsumerExistsError):
    """The consumer is in use by another subscriber (10013)."""


class ConsumerCreateError(APIError, ValueError):
    """The consumer could not be created or changed (10012), for instance for a field that may not change."""


class ConsumerConfigError(APIError, ValueError):
    """The consumer's configuration is refused (10078 to 10139 and others)."""


class WorkQueueConsumerError(ConsumerConfigError):
    """A work-queue stream does not take this consumer: a message has one consumer there (10084, 10098 to 10101)."""


class ConsumerOfflineError(JetStreamUnavailableError):
    """The consumer is offline: no server can serve it (10119, 10195)."""


class InvalidPriorityGroupError(APIError, ValueError):
    """The consumer has no such priority group (10160)."""


class PublishExpectationError(APIError, ValueError):
    """The message was not stored, because the stream is not as its headers expect."""


class WrongStreamError(PublishExpectationError):
    """The subject belongs to another stream than expected (10060)."""


class WrongLastMsgIdError(PublishExpectationError):
    """The last message id is another one than expected (10070)."""


class WrongLastSequenceError(PublishExpectationError):
    """The last sequence of stream or subject is another one than expected (10071, 10164)."""

    @property
    def last_sequence(self) -> int | None:
        """The sequence that the server has, None when its text does not tell it."""
        match = _SEQUENCE.search(self.description)
        return int(match[1]) if match else None


class DuplicateInProcessError(APIError):
    """A message with that id is just being stored by the servers of a replicated stream (10158).

    It was not stored a second time; whether the first one will be is not known yet. Sent again a moment later, the
    message is acknowledged as a duplicate, or stored.
    """


class MessageTTLDisabledError(APIError, ValueError):
    """The message has a time to live and the stream does not allow one (10166)."""


class MessageTTLInvalidError(APIError, ValueError):
    """The message's time to live is no number of seconds from 1, duration or `never` (10165)."""


class RollupError(APIError, ValueError):
    """The roll-up header is wrong or not allowed (10111)."""


class CounterError(APIError, ValueError):
    """The counter message is wrong or the stream does not count (10168 to 10172)."""


class ScheduleError(APIError, ValueError):
    """The schedule of the message is wrong or the stream does not schedule (10188 to 10192, 10203, 10212, 10223)."""


class BatchError(APIError, ValueError):
    """The batch is refused as a whole; nothing of it was stored (10174 to 10211)."""


class AtomicPublishDisabledError(BatchError):
    """The stream does not take atomic batches (10174)."""


class IncompleteBatchError(BatchError):
    """A message of the batch is missing, or the batch was dropped after ten idle seconds (10176)."""


class BatchTooLargeError(BatchError):
    """The batch has more messages than the server takes (10199)."""


class DuplicateInBatchError(BatchError):
    """A message id of the batch is in the stream, or twice in the batch (10201)."""
