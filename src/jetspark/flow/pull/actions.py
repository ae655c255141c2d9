"""What the pull engine wants done."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.api import PullRequest
from jetspark.jetstream.errors import Error

__all__ = ["Action", "End", "LookUp", "SendPull", "Warn"]


@dataclass(frozen=True, slots=True)
class SendPull:
    """Publish the request, with the token at the end of its reply subject. It counts as open already."""

    token: int
    request: PullRequest


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the user; it goes on."""

    error: Error


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask for the consumer's info, and say `looked_up` what came of it."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more will come; quietly, or with an error that is shown after the messages."""

    error: Error | None


Action = SendPull | Warn | LookUp | End
