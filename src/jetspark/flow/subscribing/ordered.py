"""What an ordered subscription asks for, and where its next consumer starts (ADR-17).

Its consumers are not acknowledged, not replicated and made to be thrown away: when a delivery is missing, the next one
starts behind the last good message. So each message comes once and in order, whatever happens in between.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy

__all__ = ["PushCursor"]

_ACK_WAIT: Final = timedelta(hours=22)
_HEARTBEAT: Final = timedelta(seconds=5)
_INACTIVE: Final = timedelta(seconds=5)


class PushCursor:
    """Where an ordered subscription is, and the configurations of its consumers, one after the other.

    Parameters
    ----------
    prefix
        Start of their names; each gets a number of its own behind it, so that no creation meets its predecessor.
    config
        What the user set.
    subject
        What to filter for, unless the configuration has filters.

    Attributes
    ----------
    serial
        Number of the present consumer, 0 before the first.
    last_sequence
        Stream sequence of the last message that was handed on, 0 before the first.
    """

    def __init__(self, prefix: str, config: ConsumerConfig, subject: str = "") -> None:
        self._prefix = prefix
        self._config = config.replace(
            durable_name=None,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            mem_storage=True,
            num_replicas=1,
            ack_wait=_ACK_WAIT,
            idle_heartbeat=config.idle_heartbeat or _HEARTBEAT,
            inactive_threshold=config.inactive_threshold or _INACTIVE,
            deliver_policy=config.deliver_policy or DeliverPolicy.ALL,
            replay_policy=config.replay_policy or ReplayPolicy.INSTANT,
            filter_subject=(None if config.filter_subjects else subject or config.filter_subject) or None,
        )
        self.serial = 0
        self.last_sequence = 0

    @property
    def name(self) -> str:
        """Name of the present consumer."""
        return f"{self._prefix}_{self.serial}"

    def next_config(self, deliver_subject: str) -> ConsumerConfig:
        """Configuration of the next consumer.

        It starts behind the last message that was handed on. As long as none was, the policy that the user chose
        stands (ORD-06): one message of `new` that got lost is not a reason to read the whole stream.
        """
        self.serial += 1
        config = self._config.replace(name=self.name, deliver_subject=deliver_subject)
        if not self.last_sequence:
            return config
        return config.starting_behind(self.last_sequence)
