"""A watch of a bucket: an ordered reader with the end of the initial data (KVS-34 to KVS-41).

The consumer of a watch begins with the newest entry of each key, or elsewhere; then changes follow. After a lost
consumer the next one continues after the last entry that was received. Before the end of the initial data, it begins
with the newest entries again, because the history between two of them is not part of the watch. Entries that come
again are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypedDict

from jetspark.engine.catch_up import CatchUp, CatchUpAction
from jetspark.engine.ordered_actions import GetConsumerInfo
from jetspark.engine.ordered_config import ordered_config
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.jetstream.ack import AckMetadata, parse_ack_subject
from jetspark.jetstream.config import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.messages import Message

__all__ = [
    "MARKERS_KEPT",
    "READ_TIMEOUT",
    "WATCH_HEARTBEAT",
    "InitialDataCatchUp",
    "WatchCursor",
    "WatchFields",
    "WatchOptions",
]

READ_TIMEOUT: Final = 30.0
"""Default seconds to wait for the next entry of a read of many keys."""
MARKERS_KEPT: Final = timedelta(minutes=30)
"""Default age from which markers of deleted keys are removed."""
WATCH_HEARTBEAT: Final = 5.0
"""Seconds without a message after which the server of a watch sends a heartbeat."""


class WatchFields(TypedDict, total=False):
    """The options of a watch without its filters."""

    include_history: bool
    updates_only: bool
    ignore_deletes: bool
    meta_only: bool
    resume_from: int | None


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of a watch.

    Attributes
    ----------
    subjects
        Filters of the entries.
    include_history
        Begin with all revisions that are kept, instead of the newest of each key.
    updates_only
        Begin with the next entry.
    ignore_deletes
        Leave out markers.
    meta_only
        Leave out values.
    resume_from
        Begin with this revision, and deliver all after it.
    """

    subjects: tuple[str, ...]
    include_history: bool = False
    updates_only: bool = False
    ignore_deletes: bool = False
    meta_only: bool = False
    resume_from: int | None = None
    config: ConsumerConfig = field(init=False)
    """Configuration that all consumers of the watch share."""

    def __post_init__(self) -> None:
        """Check the options. Raises ConfigError."""
        if self.updates_only and (self.include_history or self.resume_from is not None):
            raise ConfigError("updates_only begins with the next entry; include_history and resume_from do not fit")
        if self.resume_from is not None and self.resume_from < 1:
            raise ConfigError(f"resume_from is a revision, which is positive, not {self.resume_from}")
        fields: dict[str, object] = {
            "filter_subjects": list(self.subjects),
            "deliver_policy": self._policy,
            "opt_start_seq": self.resume_from,
            "headers_only": self.meta_only or None,
        }
        object.__setattr__(self, "config", ordered_config(fields))

    @property
    def _policy(self) -> DeliverPolicy:
        if self.resume_from is not None:
            return DeliverPolicy.BY_START_SEQUENCE
        if self.updates_only:
            return DeliverPolicy.NEW
        return DeliverPolicy.ALL if self.include_history else DeliverPolicy.LAST_PER_SUBJECT


class WatchCursor(OrderedCursor):
    """Position of a watch, and the consumers of its reading.

    `last_sequence` never goes back, also if the newest entries are delivered again.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        super().__init__(config)
        self._initial = True
        self._first_start: int | None = None

    def next_config(self) -> ConsumerConfig:
        """Return the next configuration: the newest entries again, or what follows the last entry (KVS-40)."""
        following = super().next_config()
        repeats = self._initial and self._config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT
        return self._config.replace(name=self.name) if repeats else following

    def created(self, info: ConsumerInfo) -> None:
        """Handle a created consumer; the first one shows where the bucket was."""
        super().created(info)
        if self._first_start is None:
            self._first_start = info.delivered.stream_sequence

    def accept(self, messages: Sequence[Message]) -> tuple[int, AckMetadata | None]:
        """Check a series of deliveries; see `OrderedCursor.accept`."""
        before = self.last_sequence
        good, last = super().accept(messages)
        if before is not None and self.last_sequence is not None:
            self.last_sequence = max(before, self.last_sequence)
        return good, last

    def on_initial_data(self) -> None:
        """Note that the initial data has come. If it was empty, the next consumer starts where the first one did."""
        self._initial = False
        if self.last_sequence is None:
            self.last_sequence = self._first_start

    @property
    def _position(self) -> int:
        """Sequence after which the next consumer starts; never 0, so that another stream is always noticed."""
        return max(super()._position, 1)


class InitialDataCatchUp(CatchUp):
    """The initial data of a watch has come: the messages that were pending when its consumer was created (KVS-36).

    Parameters
    ----------
    cursor
        The position of the reader.
    """

    def __init__(self, cursor: WatchCursor) -> None:
        super().__init__()
        self._cursor = cursor

    def began(self) -> list[CatchUpAction]:
        """End at once if nothing was pending."""
        return [] if self._cursor.pending else self._end()

    def accepted(self, messages: Sequence[Message], last_pending: int) -> list[CatchUpAction]:
        """End with the first delivery that has nothing pending, if enough have come."""
        initial, received = self._cursor.pending, self._cursor.delivered
        if received >= initial:
            before = received - len(messages)
            for number in range(max(initial - before - 1, 0), len(messages)):
                if not parse_ack_subject(messages[number].reply).num_pending:
                    return self._end(len(messages) - number - 1)
            return []
        # Some are gone, or a delivery counted too few: the consumer knows.
        return [] if last_pending else [GetConsumerInfo(self._cursor.name)]

    def silent(self) -> list[CatchUpAction]:
        """Ask the consumer whether anything is pending."""
        return [GetConsumerInfo(self._cursor.name)]

    def info_received(self, info: ConsumerInfo) -> list[CatchUpAction]:
        """End if nothing is pending and all deliveries have come; else ask again at the next occasion."""
        complete = not info.num_pending and info.delivered.consumer_sequence == self._cursor.delivered
        return self._end() if complete else []

    def _end(self, later: int = 0) -> list[CatchUpAction]:
        """Report the end, before the last `later` messages that were accepted."""
        self._cursor.on_initial_data()
        return self.finish(self._cursor.accepted_count - later)
