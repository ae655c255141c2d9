"""What the flow behind an ordered consume wants done."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error

__all__ = ["AskLeader", "Create", "Delete", "LookUp", "OrderedAction", "OrderedEnd", "Read", "Warn"]


@dataclass(frozen=True, slots=True)
class Create:
    """Make a consumer, within `TRY_TIMEOUT`, and say `created` or `failed`."""

    config: ConsumerConfig


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a former consumer; nobody waits for that, or minds if it is gone. Say `deleted` or `undeleted`."""

    name: str


@dataclass(frozen=True, slots=True)
class Read:
    """Pull from the consumer, until told `Create`."""

    name: str


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask for the consumer's info and say `looked_up`."""

    name: str


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Ask the stream's leader for the last sequence of these subjects, and say `leader_has` or `leader_failed`."""

    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the user; it goes on."""

    error: Error


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """Nothing more will come."""

    error: Error | None


OrderedAction = Create | Delete | Read | LookUp | AskLeader | Warn | OrderedEnd
