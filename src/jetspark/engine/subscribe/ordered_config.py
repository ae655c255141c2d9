"""Consumers of an ordered subscription (ADR-17): no acknowledgements, no replication, memory storage."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy

__all__ = ["ordered_push_config"]

_ACK_WAIT: Final = timedelta(hours=22)
_HEARTBEAT: Final = timedelta(seconds=5)
_INACTIVE: Final = timedelta(seconds=5)


def ordered_push_config(config: ConsumerConfig, subject: str = "") -> ConsumerConfig:
    """Return the common configuration of the consumers of an ordered subscription (ORD-02).

    Parameters
    ----------
    config
        Fields that the user set.
    subject
        Filter, unless the configuration has `filter_subjects`.
    """
    return config.replace(
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
