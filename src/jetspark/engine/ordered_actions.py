"""Actions that the flow of an ordered consume requests."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error

__all__ = [
    "CreateConsumer",
    "DeleteConsumer",
    "GetConsumerInfo",
    "GetLastSequence",
    "OrderedAction",
    "OrderedEnd",
    "StartPulling",
    "Warn",
]


@dataclass(frozen=True, slots=True)
class CreateConsumer:
    """Create a consumer, within `CREATE_TIMEOUT`, and call `created` or `failed`."""

    config: ConsumerConfig


@dataclass(frozen=True, slots=True)
class DeleteConsumer:
    """Delete a former consumer in the background; it may be gone already. Then call `deleted` or `delete_failed`."""

    name: str


@dataclass(frozen=True, slots=True)
class StartPulling:
    """Pull from the consumer until the next `CreateConsumer`."""

    name: str


@dataclass(frozen=True, slots=True)
class GetConsumerInfo:
    """Request the consumer's info and call `info_received`."""

    name: str


@dataclass(frozen=True, slots=True)
class GetLastSequence:
    """Ask the stream's leader for the last sequence of these subjects.

    Then call `last_sequence_received` or `last_sequence_failed`.
    """

    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warn:
    """Report a warning to the user; the consume continues."""

    error: Error


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """The consume has ended."""

    error: Error | None


OrderedAction = CreateConsumer | DeleteConsumer | StartPulling | GetConsumerInfo | GetLastSequence | Warn | OrderedEnd
