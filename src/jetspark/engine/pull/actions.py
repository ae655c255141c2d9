"""Actions that the pull engine requests."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.api import PullRequest
from jetspark.jetstream.errors import Error

__all__ = ["Action", "CheckConsumer", "End", "SendPull", "Warn"]


@dataclass(frozen=True, slots=True)
class SendPull:
    """Publish the request, with the token at the end of its reply subject. The pull already counts as open."""

    token: int
    request: PullRequest


@dataclass(frozen=True, slots=True)
class Warn:
    """Report a warning to the user; the consume continues."""

    error: Error


@dataclass(frozen=True, slots=True)
class CheckConsumer:
    """Request the consumer's info, and call `consumer_checked` with the result."""


@dataclass(frozen=True, slots=True)
class End:
    """The fetch or consume has ended, without an error or with one that is raised after the messages."""

    error: Error | None


Action = SendPull | Warn | CheckConsumer | End
