"""Errors for status messages: answers of a consumer to a pull, or of a stream to a direct get.

The table in `jetspark.jetstream.status` maps the statuses of a pull to these classes.
"""

from __future__ import annotations

from typing import ClassVar

from jetspark.jetstream.errors.hints import CONSUMER_GONE
from jetspark.wire.errors import Error, NoRespondersError

__all__ = [
    "BadPullRequestError",
    "ConsumerDeletedError",
    "ConsumerIsPushError",
    "ConsumerUnavailableError",
    "DirectGetRequestError",
    "LeadershipChangeError",
    "MessageExceedsMaxBytesError",
    "NoConsumerResponseError",
    "NoDirectGetError",
    "PinIdMismatchError",
    "PullLimitExceededError",
    "ServerShutdownError",
    "StatusError",
    "TooManyResultsError",
]


class StatusError(Error, RuntimeError):
    """A status that reports an error.

    Attributes
    ----------
    code
        Three-digit code.
    description
        Text of the server, empty if it sent none.
    where
        Description of the request, empty if not known.
    """

    _hint: ClassVar[str] = ""  # what it means, and what to do

    def __init__(self, code: int, description: str = "", *, where: str = "") -> None:
        text = f"status {code} {description}".rstrip()
        if self._hint:
            text = f"{text}; {self._hint}"
        super().__init__(f"{where}: {text}" if where else text)
        self.code = code
        self.description = description
        self.where = where


class BadPullRequestError(StatusError, ValueError):
    """The server refused the pull (400): wrong values or a missing priority group."""


class PullLimitExceededError(StatusError, ValueError):
    """The pull exceeds the consumer's max_batch, max_expires, max_bytes or max_waiting (409)."""


class MessageExceedsMaxBytesError(StatusError, ValueError):
    """The next message is larger than the pull's `max_bytes`; use a larger value to receive it (409)."""


class ConsumerDeletedError(StatusError, LookupError):
    """The consumer or its stream was deleted (409)."""


class ConsumerIsPushError(StatusError, TypeError):
    """The consumer is a push consumer and cannot be pulled from (409)."""


class LeadershipChangeError(StatusError, ConnectionError):
    """Another server became the leader of the consumer; the pull has ended (409)."""

    transient = True


class ServerShutdownError(StatusError, ConnectionError):
    """The server shuts down; the pull has ended (409)."""

    transient = True


class PinIdMismatchError(StatusError):
    """Another client is the pinned one of the priority group (423)."""


class NoConsumerResponseError(StatusError, NoRespondersError):
    """No server answers the pull (503): the consumer is gone, or no server can serve it at the moment."""

    _hint = f"{CONSUMER_GONE}, or has no leader now; with durable_name or a longer inactive_threshold it is kept"


class ConsumerUnavailableError(NoConsumerResponseError):
    """No server answers for the consumer (503), and it is not gone: it has no leader, or JetStream is unavailable."""

    transient = True
    _hint = "the consumer has no leader now, or JetStream is unavailable on this server; try again later"


class NoDirectGetError(StatusError, NoRespondersError):
    """No server answers the direct get (503): there is no such stream, or it does not set `allow_direct`."""

    _hint = "set allow_direct on the stream; if it is set, the stream is gone or has no leader now"


class DirectGetRequestError(StatusError, ValueError):
    """The server refused the direct get as wrong (408)."""


class TooManyResultsError(StatusError, ValueError):
    """A direct get matches more subjects than the server allows, 1,024 (413)."""
