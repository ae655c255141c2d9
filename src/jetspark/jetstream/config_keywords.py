"""Keywords of the calls that take the fields of StreamConfig or ConsumerConfig.

Made by `tools/make_keywords.py` from `jetspark.jetstream.config`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict

from jetspark.jetstream.config import (
    AckPolicy,
    DeliverPolicy,
    DiscardPolicy,
    PersistMode,
    Placement,
    PriorityPolicy,
    ReplayPolicy,
    Republish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransform,
)
from jetspark.jetstream.config import ConsumerConfig as ConsumerConfig
from jetspark.jetstream.config import StreamConfig as StreamConfig

__all__ = ["ConsumerConfigFields", "StreamConfigFields"]


class StreamConfigFields(TypedDict, total=False):
    """The fields of `StreamConfig`, as keywords of a call."""

    name: str
    description: str | None
    subjects: list[str] | None
    retention: RetentionPolicy | str | None
    max_consumers: int | None
    max_msgs: int | None
    max_bytes: int | None
    max_age: timedelta | None
    max_msgs_per_subject: int | None
    max_msg_size: int | None
    discard: DiscardPolicy | str | None
    storage: StorageType | str | None
    num_replicas: int | None
    no_ack: bool | None
    duplicate_window: timedelta | None
    placement: Placement | None
    mirror: StreamSource | None
    sources: list[StreamSource] | None
    compression: StoreCompression | str | None
    first_seq: int | None
    subject_transform: SubjectTransform | None
    republish: Republish | None
    allow_direct: bool | None
    mirror_direct: bool | None
    discard_new_per_subject: bool | None
    sealed: bool | None
    deny_delete: bool | None
    deny_purge: bool | None
    allow_rollup_hdrs: bool | None
    consumer_limits: StreamConsumerLimits | None
    allow_msg_ttl: bool | None
    subject_delete_marker_ttl: timedelta | None
    allow_msg_counter: bool | None
    allow_atomic: bool | None
    allow_msg_schedules: bool | None
    persist_mode: PersistMode | str | None
    allow_batched: bool | None
    metadata: dict[str, str] | None


class ConsumerConfigFields(TypedDict, total=False):
    """The fields of `ConsumerConfig`, as keywords of a call."""

    name: str | None
    durable_name: str | None
    description: str | None
    deliver_policy: DeliverPolicy | str | None
    opt_start_seq: int | None
    opt_start_time: datetime | None
    ack_policy: AckPolicy | str | None
    ack_wait: timedelta | None
    max_deliver: int | None
    backoff: list[timedelta] | None
    filter_subject: str | None
    filter_subjects: list[str] | None
    replay_policy: ReplayPolicy | str | None
    rate_limit_bps: int | None
    sample_freq: str | None
    max_waiting: int | None
    max_ack_pending: int | None
    flow_control: bool | None
    headers_only: bool | None
    max_batch: int | None
    max_expires: timedelta | None
    max_bytes: int | None
    deliver_subject: str | None
    deliver_group: str | None
    idle_heartbeat: timedelta | None
    inactive_threshold: timedelta | None
    num_replicas: int | None
    mem_storage: bool | None
    direct: bool | None
    sourcing: bool | None
    metadata: dict[str, str] | None
    pause_until: datetime | None
    priority_groups: list[str] | None
    priority_policy: PriorityPolicy | str | None
    priority_timeout: timedelta | None
