"""The consumers behind one ordered reader, one after the other (ADR-17).

They are made to be thrown away: when a delivery is missing, the next one starts behind the last good message. So each
message comes once and in order, whatever happens to consumers.
"""

from __future__ import annotations

from jetspark.jetstream.config import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.info import ConsumerInfo

__all__ = ["ConsumerSeries"]


class ConsumerSeries:
    """Where an ordered reader is, and the configurations of its consumers.

    Parameters
    ----------
    config
        What they have in common.
    prefix
        Start of their names; each gets a number of its own behind it, so that no creation meets its predecessor.

    Attributes
    ----------
    serial
        Number of the present consumer, 0 before the first.
    last_sequence
        Stream sequence of the last good message; None before the first.
    """

    def __init__(self, config: ConsumerConfig, prefix: str) -> None:
        self._prefix = prefix
        self._config = config
        self.serial = 0
        self.last_sequence: int | None = None

    @property
    def name(self) -> str:
        """Name of the present consumer."""
        return f"{self._prefix}_{self.serial}"

    def next_config(self, deliver_subject: str | None = None) -> ConsumerConfig:
        """The next consumer: behind the last good message; as the user wants it as long as there was none (ORD-06)."""
        self.serial += 1
        config = self._config.replace(name=self.name, deliver_subject=deliver_subject)
        return config if self.last_sequence is None else config.starting_behind(self.last_sequence)

    def created(self, info: ConsumerInfo) -> None:
        """A consumer was made. With `new`, what is stored from now on is new, also for its successors."""
        fresh = self.last_sequence is None and not info.delivered.consumer_seq
        if fresh and self._config.deliver_policy == DeliverPolicy.NEW:
            self.last_sequence = info.delivered.stream_seq
