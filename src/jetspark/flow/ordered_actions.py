"""Actions that the flow of an ordered consume requests."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error

__all__ = ["AskLeader", "Create", "Delete", "LookUp", "OrderedAction", "OrderedEnd", "Read", "Warn"]


@dataclass(frozen=True, slots=True)
class Create:
    """Create a consumer, within `TRY_TIMEOUT`, and call `created` or `failed`."""

    config: ConsumerConfig


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a former consumer in the background; it may be gone already. Then call `deleted` or `undeleted`."""

    name: str


@dataclass(frozen=True, slots=True)
class Read:
    """Pull from the consumer until the next `Create`."""

    name: str


@dataclass(frozen=True, slots=True)
class LookUp:
    """Request the consumer's info and call `looked_up`."""

    name: str


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Ask the stream's leader for the last sequence of these subjects, and call `leader_has` or `leader_failed`."""

    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warn:
    """Report a warning to the user; the consume continues."""

    error: Error


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """The consume has ended."""

    error: Error | None


OrderedAction = Create | Delete | Read | LookUp | AskLeader | Warn | OrderedEnd
