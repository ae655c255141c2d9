"""What the server tells about streams, consumers and publishes, all fields of nats-server 2.15.

What the server leaves out because it is zero, false or empty reads as that. Times that never happened, which the server
writes as the year 1, read as None.
"""

from __future__ import annotations

from datetime import UTC
from typing import Final

import msgspec

from jetspark.jetstream.codec import JsonEnum, JsonStruct
from jetspark.jetstream.config import (
    ConsumerConfig,
    ExternalStream,
    Placement,
    RetentionPolicy,
    StreamConfig,
    SubjectTransform,
)
from jetspark.jetstream.times import Duration, DurationField, Timestamp, TimestampField

__all__ = [
    "APIErrorBody",
    "ClusterInfo",
    "ConsumerInfo",
    "ConsumerPause",
    "DesiredCluster",
    "DesiredOrigin",
    "DesiredStatus",
    "LostStreamData",
    "MigrationStatus",
    "PeerInfo",
    "PriorityGroupState",
    "PubAck",
    "SequenceInfo",
    "StreamAlternate",
    "StreamInfo",
    "StreamSourceInfo",
    "StreamState",
]

_NEVER: Final = Timestamp(1, 1, 1, tzinfo=UTC)
_ZERO: Final = Duration()


class APIErrorBody(JsonStruct):
    """Error as it stands in a reply."""

    code: int = 0
    """Class of the error, as in HTTP."""
    err_code: int = 0
    """JetStream's number of the error."""
    description: str = ""
    """Text for people."""


class MigrationStatus(JsonEnum):
    """What has to happen before a move of a stream or consumer goes on."""

    META = "meta"
    MEMBERSHIP = "membership"
    SNAPSHOT = "snapshot"
    CATCHUP = "catchup"
    QUORUM = "quorum"
    BLOCKED = "blocked"
    UNAVAILABLE = "unavailable"


class PeerInfo(JsonStruct):
    """One more server that holds a stream or consumer."""

    name: str = ""
    """Name of the server."""
    current: bool = False
    """It was seen lately and has everything."""
    offline: bool = False
    """It was not seen lately."""
    active: DurationField = _ZERO
    """Time since it was last seen."""
    lag: int = 0
    """Operations that it is behind."""
    peer: str = ""
    """Id of the server."""
    pending: bool = False
    """It is assigned, but not yet part of the group."""


class DesiredOrigin(JsonStruct):
    """What a stream was before the change that is under way."""

    replicas: int = 0
    """Number of copies."""
    placement: Placement | None = None
    """Placement, when it changes."""
    retention: RetentionPolicy | None = None
    """Retention, which holds until the change is complete."""


class DesiredStatus(JsonStruct):
    """How far a change is."""

    description: str = ""
    """Short text for people."""
    type: MigrationStatus = MigrationStatus("")
    """What has to happen next."""
    err: str = ""
    """Fault that holds it up."""


class DesiredCluster(JsonStruct):
    """Servers that should hold a stream or consumer after the change that is under way."""

    name: str = ""
    """Name of the cluster."""
    replicas: list[PeerInfo] | None = None
    """The servers."""
    origin: DesiredOrigin | None = None
    """What it was before."""
    status: DesiredStatus | None = None
    """How far it is."""


class ClusterInfo(JsonStruct):
    """Servers that hold a stream or consumer."""

    name: str = ""
    """Name of the cluster."""
    raft_group: str = ""
    """Name of the group that replicates it."""
    leader: str = ""
    """Name of the leading server, empty when there is none."""
    leader_since: TimestampField | None = None
    """Since when it leads."""
    system_account: bool = False
    """Replication goes through the system account."""
    traffic_account: str = ""
    """Account that replication goes through."""
    replicas: list[PeerInfo] | None = None
    """The servers beside the leader."""
    desired: DesiredCluster | None = None
    """What a change that is under way leads to."""


class LostStreamData(JsonStruct):
    """Messages that the store lost."""

    msgs: list[int] | None = None
    """Their sequences."""
    bytes: int = 0
    """Their size."""


class StreamState(JsonStruct):
    """What is in a stream."""

    messages: int = 0
    """Number of messages."""
    bytes: int = 0
    """Size of the messages, with headers and the store's own overhead."""
    first_seq: int = 0
    """Sequence of the first message; of an emptied stream, `last_seq` + 1."""
    first_ts: TimestampField | None = None
    """When the first message was stored, None when there is none."""
    last_seq: int = 0
    """Highest sequence that was ever given out."""
    last_ts: TimestampField | None = None
    """When the last message was stored, None when there never was one."""
    num_subjects: int = 0
    """Number of different subjects."""
    subjects: dict[str, int] | None = None
    """Number of messages by subject, when a filter asked for it (one page; see `StreamInfoRequest`)."""
    num_deleted: int = 0
    """Sequences between first and last that are gone."""
    deleted: list[int] | None = None
    """Those sequences, when they were asked for."""
    lost: LostStreamData | None = None
    """What the store lost."""
    consumer_count: int = 0
    """Number of consumers."""

    def __post_init__(self) -> None:
        """Read the server's year 1 as "never"."""
        if self.first_ts == _NEVER:
            self.first_ts = None
        if self.last_ts == _NEVER:
            self.last_ts = None


class StreamSourceInfo(JsonStruct):
    """State of a mirror or source."""

    name: str = ""
    """Name of the stream that is copied."""
    external: ExternalStream | None = None
    """How it is reached."""
    lag: int = 0
    """Messages that are not copied yet."""
    active: DurationField = _ZERO
    """Time since the last sign of it; negative when there never was one."""
    error: APIErrorBody | None = None
    """What keeps it from being copied."""
    filter_subject: str = ""
    """Filter of what is copied."""
    subject_transforms: list[SubjectTransform] | None = None
    """Rules that rewrite the subjects."""


class StreamAlternate(JsonStruct):
    """Mirror that can serve reads as well, best first."""

    name: str = ""
    """Name of the stream."""
    domain: str = ""
    """Its JetStream domain."""
    cluster: str = ""
    """Its cluster."""


class StreamInfo(JsonStruct):
    """Configuration and state of a stream."""

    config: StreamConfig
    """Configuration, with the server's defaults filled in."""
    created: TimestampField
    """When it was made. Tells a stream from a later one of the same name."""
    state: StreamState = msgspec.field(default_factory=StreamState)
    """What is in it."""
    domain: str = ""
    """JetStream domain."""
    cluster: ClusterInfo | None = None
    """Servers that hold it."""
    mirror: StreamSourceInfo | None = None
    """State of the copy, for a mirror."""
    sources: list[StreamSourceInfo] | None = None
    """State of its sources."""
    alternates: list[StreamAlternate] | None = None
    """Mirrors that can serve reads as well."""
    ts: TimestampField | None = None
    """When this was told."""


class SequenceInfo(JsonStruct):
    """Place of a consumer."""

    consumer_seq: int = 0
    """Number of the delivery."""
    stream_seq: int = 0
    """Sequence in the stream."""
    last_active: TimestampField | None = None
    """When that happened."""


class PriorityGroupState(JsonStruct):
    """State of a priority group (ADR-42)."""

    group: str = ""
    """Name of the group."""
    pinned_client_id: str = ""
    """Id of the pinned client, empty when there is none."""
    pinned_ts: TimestampField | None = None
    """Since when it is pinned."""

    def __post_init__(self) -> None:
        """Read the server's year 1 as "never"."""
        if self.pinned_ts == _NEVER:
            self.pinned_ts = None


class ConsumerInfo(JsonStruct):
    """Configuration and state of a consumer."""

    stream_name: str
    """Name of its stream."""
    name: str
    """Its name."""
    created: TimestampField
    """When it was made."""
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    """Configuration, with the server's defaults filled in."""
    delivered: SequenceInfo = msgspec.field(default_factory=SequenceInfo)
    """Last message that was delivered."""
    ack_floor: SequenceInfo = msgspec.field(default_factory=SequenceInfo)
    """Everything up to here is acknowledged."""
    num_ack_pending: int = 0
    """Messages that wait for acknowledgement."""
    num_redelivered: int = 0
    """Of those, messages that were delivered more than once."""
    num_waiting: int = 0
    """Open pulls."""
    num_pending: int = 0
    """Messages that match and were not delivered yet."""
    cluster: ClusterInfo | None = None
    """Servers that hold it."""
    push_bound: bool = False
    """Somebody listens on the deliver subject."""
    paused: bool = False
    """It delivers nothing until `config.pause_until`."""
    pause_remaining: DurationField = _ZERO
    """How long it is still paused."""
    ts: TimestampField | None = None
    """When this was told."""
    priority_groups: list[PriorityGroupState] | None = None
    """State of its priority groups."""


class ConsumerPause(JsonStruct):
    """Answer to pausing or resuming a consumer."""

    paused: bool = False
    """It is paused now."""
    pause_until: TimestampField | None = None
    """Until when, None when it is not paused."""
    pause_remaining: DurationField = _ZERO
    """How long still."""

    def __post_init__(self) -> None:
        """Read the server's year 1 as "never"."""
        if self.pause_until == _NEVER:
            self.pause_until = None


class PubAck(JsonStruct):
    """Acknowledgement of a publish: the message is stored."""

    stream: str
    """Stream that stored it."""
    seq: int
    """Its sequence; of a batch, that of the last message."""
    duplicate: bool = False
    """The stream had the message id already; `seq` is that of the first one, nothing was stored now."""
    domain: str = ""
    """JetStream domain."""
    val: str = ""
    """New value of a counter (ADR-49)."""
    batch: str = ""
    """Id of the batch (ADR-50)."""
    count: int = 0
    """Messages that the batch stored (ADR-50)."""
