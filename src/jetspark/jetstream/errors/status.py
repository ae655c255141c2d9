"""Errors made from a status message: what a consumer answers to a pull, or a stream to a direct get.

Which status of a pull becomes which class is decided by the table in `jetspark.jetstream.status`.
"""

from __future__ import annotations

from jetspark.wire.errors import Error, NoRespondersError

__all__ = [
    "BadPullRequestError",
    "ConsumerDeletedError",
    "ConsumerIsPushError",
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
    """A status that says that something went wrong.

    Attributes
    ----------
    code
        Three-digit code.
    description
        Text of the server, empty when it sent none.
    where
        What was asked for, empty when that is not known.
    """

    def __init__(self, code: int, description: str = "", *, where: str = "") -> None:
        text = f"status {code} {description}".rstrip()
        super().__init__(f"{where}: {text}" if where else text)
        self.code = code
        self.description = description
        self.where = where


class BadPullRequestError(StatusError, ValueError):
    """The server could not make sense of the pull (400): wrong values or a missing priority group."""


class PullLimitExceededError(StatusError, ValueError):
    """The pull asks for more than the consumer's max_batch, max_expires, max_bytes or max_waiting allow (409)."""


class MessageExceedsMaxBytesError(StatusError, ValueError):
    """The next message is larger than the pull's `max_bytes`, which has to be raised for it to come (409)."""


class ConsumerDeletedError(StatusError, LookupError):
    """The consumer or its stream was deleted (409)."""


class ConsumerIsPushError(StatusError, TypeError):
    """The consumer pushes and cannot be pulled from (409)."""


class LeadershipChangeError(StatusError, ConnectionError):
    """Another server took the consumer over; the pull is gone (409)."""


class ServerShutdownError(StatusError, ConnectionError):
    """The server goes down; the pull is gone (409)."""


class PinIdMismatchError(StatusError):
    """Another client is the pinned one of the priority group (423)."""


class NoConsumerResponseError(StatusError, NoRespondersError):
    """Nobody answers the pull (503): the consumer is gone, or no server can serve it at the moment."""


class NoDirectGetError(StatusError, NoRespondersError):
    """Nobody answers the direct get (503): there is no such stream, or it does not set `allow_direct`."""


class DirectGetRequestError(StatusError, ValueError):
    """The server could not make sense of the direct get (408)."""


class TooManyResultsError(StatusError, ValueError):
    """The subjects of a direct get match more than the server answers at once, 1,024 (413)."""
