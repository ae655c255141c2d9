"""The consumers of one ordered reader, one after the other (ADR-17).

Each consumer is temporary. When a delivery is missing, the next consumer starts after the last good message. So each
message arrives once and in order, also if consumers are lost.
"""

from __future__ import annotations

from jetspark.jetstream.config import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.info import ConsumerInfo

__all__ = ["ConsumerSeries"]


class ConsumerSeries:
    """Position of an ordered reader, and the configurations of its consumers.

    Parameters
    ----------
    config
        Configuration that all consumers share.
    prefix
        Prefix of the consumers' names. Each name gets its own number, so that no creation collides with a former one.

    Attributes
    ----------
    serial
        Number of the current consumer, 0 before the first.
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
        """Name of the current consumer."""
        return f"{self._prefix}_{self.serial}"

    def next_config(self, deliver_subject: str | None = None) -> ConsumerConfig:
        """Return the next configuration: it starts after the last good message, or as set if there is none (ORD-06)."""
        self.serial += 1
        config = self._config.replace(name=self.name, deliver_subject=deliver_subject)
        return config if self.last_sequence is None else config.starting_after(self.last_sequence)

    def created(self, info: ConsumerInfo) -> None:
        """Handle a created consumer. With deliver policy `new`, its start also counts for the next consumers."""
        fresh = self.last_sequence is None and not info.delivered.consumer_seq
        if fresh and self._config.deliver_policy == DeliverPolicy.NEW:
            self.last_sequence = info.delivered.stream_seq
