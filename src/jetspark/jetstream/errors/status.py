"""Errors made from a status message: what a consumer answers to a pull instead of messages.

Which status becomes which class is decided by the table in `jetspark.jetstream.status`.
"""

from __future__ import annotations

from jetspark.jetstream.errors.base import Error

__all__ = [
    "BadPullRequestError",
    "ConsumerDeletedError",
    "ConsumerIsPushError",
    "LeadershipChangeError",
    "PinIdMismatchError",
    "PullLimitExceededError",
    "ServerShutdownError",
    "StatusError",
]


class StatusError(Error):
    """A status that ends a pull with an error.

    Attributes
    ----------
    code
        Three-digit code.
    description
        Text of the server, empty when it sent none.
    """

    def __init__(self, code: int, description: str = "", *, where: str = "") -> None:
        place = f" for {where}" if where else ""
        text = f"{code} {description}".rstrip()
        super().__init__(f"server answered {text!r}{place}")
        self.code = code
        self.description = description
        self.where = where


class BadPullRequestError(StatusError, ValueError):
    """The server could not make sense of the pull (400): wrong values or a missing priority group."""


class PullLimitExceededError(StatusError, ValueError):
    """The pull asks for more than the consumer's max_batch, max_expires, max_bytes or max_waiting allow (409)."""


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
