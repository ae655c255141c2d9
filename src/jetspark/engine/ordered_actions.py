"""Actions that the engine of an ordered reader requests; see `jetspark.engine.ordered`."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.events import ErrorOccurred, StreamRecreated

__all__ = [
    "CaughtUp",
    "CreateConsumer",
    "DeleteConsumer",
    "GetConsumerInfo",
    "GetLastSequence",
    "GetStreamInfo",
    "OrderedAction",
    "OrderedEnd",
    "Report",
    "StartReading",
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
class StartReading:
    """Read from the consumer until the next `CreateConsumer`."""

    info: ConsumerInfo


@dataclass(frozen=True, slots=True)
class GetConsumerInfo:
    """Request the consumer's info and call `info_received`."""

    name: str


@dataclass(frozen=True, slots=True)
class GetStreamInfo:
    """Request the info of the stream of this consumer. Then call `stream_received` or `stream_failed`."""

    name: str


@dataclass(frozen=True, slots=True)
class GetLastSequence:
    """Ask the stream's leader for the last sequence of these subjects.

    Then call `last_sequence_received` or `last_sequence_failed`.
    """

    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The reader has received all messages that the stream had; the reading continues."""

    position: int = 0
    """Number of messages that were accepted until then, by the rule that counts them."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Report a warning to the user; the reading continues."""

    error: Error


@dataclass(frozen=True, slots=True)
class Report:
    """Report an event of the connection."""

    event: ErrorOccurred | StreamRecreated


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """The reading has ended."""

    error: Error | None


OrderedAction = (
    CreateConsumer
    | DeleteConsumer
    | StartReading
    | GetConsumerInfo
    | GetStreamInfo
    | GetLastSequence
    | CaughtUp
    | Warn
    | Report
    | OrderedEnd
)
"""Any action of an `OrderedEngine`."""
