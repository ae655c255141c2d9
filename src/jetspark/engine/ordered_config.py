"""Configurations of the consumers of ordered readers (ADR-17): no acknowledgements, one replica, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypedDict

from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.errors import ConfigError

__all__ = ["OrderedFields", "ordered_config", "ordered_heartbeat", "ordered_push_config"]

_ACK_WAIT: Final = timedelta(hours=22)
_PUSH_HEARTBEAT: Final = timedelta(seconds=5)
_PUSH_INACTIVE: Final = timedelta(seconds=5)
_PULL_INACTIVE: Final = timedelta(minutes=5)
_PULL_HEARTBEAT: Final = 5.0
_EXPIRES_FOR_HEARTBEAT: Final = 10.0


class OrderedFields(TypedDict, total=False):
    """Fields of `ConsumerConfig` that the user of an ordered consumer may set; all others are fixed (ORD-10)."""

    filter_subject: str | None
    filter_subjects: list[str] | None
    deliver_policy: DeliverPolicy | str | None
    opt_start_seq: int | None
    opt_start_time: datetime | None
    replay_policy: ReplayPolicy | str | None
    headers_only: bool | None
    inactive_threshold: timedelta | None
    metadata: dict[str, str] | None


def ordered_config(fields: Mapping[str, object]) -> ConsumerConfig:
    """Return the common configuration of the consumers of an ordered consumer in the pull form.

    Raises
    ------
    ConfigError
        A field is fixed for ordered consumers, does not exist, or has a value of the wrong type.
    """
    for name in fields.keys() - OrderedFields.__annotations__.keys():
        raise ConfigError(
            f"{name} cannot be set on an ordered consumer; allowed are: {', '.join(OrderedFields.__annotations__)}"
        )
    config = make_config(ConsumerConfig, None, fields)
    every = config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT
    if every and not (config.filter_subject or config.filter_subjects):
        config = config.replace(filter_subject=">")  # else the server refuses it (10094)
    return config.replace(
        ack_policy=AckPolicy.NONE,
        num_replicas=1,
        mem_storage=True,
        inactive_threshold=config.inactive_threshold or _PULL_INACTIVE,
    )


def ordered_heartbeat(timeout: float) -> float:
    """Return the default heartbeat of an ordered consume (ORD-11), in seconds: 5, but at most half of `timeout`."""
    return _PULL_HEARTBEAT if timeout >= _EXPIRES_FOR_HEARTBEAT else timeout / 2


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
        idle_heartbeat=config.idle_heartbeat or _PUSH_HEARTBEAT,
        inactive_threshold=config.inactive_threshold or _PUSH_INACTIVE,
        deliver_policy=config.deliver_policy or DeliverPolicy.ALL,
        replay_policy=config.replay_policy or ReplayPolicy.INSTANT,
        filter_subject=(None if config.filter_subjects else subject or config.filter_subject) or None,
    )
