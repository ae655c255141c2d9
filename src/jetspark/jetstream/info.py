"""State of streams and consumers, and acknowledgements of publishes; all fields of nats-server 2.15.

The server leaves out fields that are zero, false or empty; they are read as such. The server writes a time that never
happened as the year 1; it is read as None.
"""

from __future__ import annotations

from datetime import UTC
from typing import Final

import msgspec
from msgspec import field

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
    "ConsumerReset",
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
    """Error in a reply."""

    code: int = 0
    """Class of the error, as in HTTP."""
    err_code: int = 0
    """JetStream's number of the error."""
    description: str = ""
    """Description of the error."""


class MigrationStatus(JsonEnum):
    """Step that must complete before a move of a stream or consumer can continue."""

    META = "meta"
    MEMBERSHIP = "membership"
    SNAPSHOT = "snapshot"
    CATCHUP = "catchup"
    QUORUM = "quorum"
    BLOCKED = "blocked"
    UNAVAILABLE = "unavailable"


class PeerInfo(JsonStruct):
    """A server with a replica of a stream or consumer, other than the leader."""

    name: str = ""
    """Name of the server."""
    current: bool = False
    """Whether it was seen recently and is up to date."""
    offline: bool = False
    """Whether it was not seen recently."""
    active: DurationField = _ZERO
    """Time since it was last seen."""
    lag: int = 0
    """Number of operations that it has not applied yet."""
    peer: str = ""
    """Id of the server."""
    pending: bool = False
    """Whether it is assigned, but not yet part of the group."""


class DesiredOrigin(JsonStruct):
    """Configuration of a stream before the change in progress."""

    replicas: int = 0
    """Number of replicas."""
    placement: Placement | None = None
    """Placement, if it changes."""
    retention: RetentionPolicy | None = None
    """Retention, which is used until the change is complete."""


class DesiredStatus(JsonStruct):
    """Progress of a change."""

    description: str = ""
    """Short description."""
    type: MigrationStatus = MigrationStatus("")
    """The next step."""
    err: str = ""
    """Error that blocks it."""


class DesiredCluster(JsonStruct):
    """Servers that should have a stream or consumer after the change in progress."""

    name: str = ""
    """Name of the cluster."""
    replicas: list[PeerInfo] | None = None
    """The servers."""
    origin: DesiredOrigin | None = None
    """Configuration before the change."""
    status: DesiredStatus | None = None
    """Progress of the change."""


class ClusterInfo(JsonStruct):
    """Servers that have a stream or consumer."""

    name: str = ""
    """Name of the cluster."""
    raft_group: str = ""
    """Name of the Raft group that replicates it."""
    leader: str = ""
    """Name of the leader, empty if there is none."""
    leader_since: TimestampField | None = None
    """Time at which it became the leader."""
    system_account: bool = False
    """Whether replication uses the system account."""
    traffic_account: str = ""
    """Account that replication uses."""
    replicas: list[PeerInfo] | None = None
    """The other servers, without the leader."""
    desired: DesiredCluster | None = None
    """Target of a change in progress."""


class LostStreamData(JsonStruct):
    """Messages that the store lost."""

    msgs: list[int] | None = None
    """Their sequences."""
    bytes: int = 0
    """Their size."""


class StreamState(JsonStruct):
    """State of a stream."""

    messages: int = 0
    """Number of messages."""
    bytes: int = 0
    """Size of the messages, with headers and the store's own overhead."""
    first_sequence: int = field(default=0, name="first_seq")
    """Sequence of the first message; `last_sequence` + 1 if all messages were removed."""
    first_ts: TimestampField | None = None
    """When the first message was stored, None if there is none."""
    last_sequence: int = field(default=0, name="last_seq")
    """Highest sequence that was ever assigned."""
    last_ts: TimestampField | None = None
    """When the last message was stored, None if there never was one."""
    num_subjects: int = 0
    """Number of different subjects."""
    subjects: dict[str, int] | None = None
    """Number of messages by subject, if the request had a filter (one page; see `StreamInfoRequest`)."""
    num_deleted: int = 0
    """Number of deleted sequences between first and last."""
    deleted: list[int] | None = None
    """The deleted sequences, if the request asked for them."""
    lost: LostStreamData | None = None
    """Messages that the store lost."""
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
    """How to reach it, if it is in another account or domain."""
    lag: int = 0
    """Number of messages that are not copied yet."""
    active: DurationField = _ZERO
    """Time since the last activity; negative if there never was any."""
    error: APIErrorBody | None = None
    """Error that prevents copying."""
    filter_subject: str = ""
    """Filter of the copied messages."""
    subject_transforms: list[SubjectTransform] | None = None
    """Rules that rewrite the subjects."""


class StreamAlternate(JsonStruct):
    """Mirror that can also serve reads."""

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
    """When it was created. Distinguishes a stream from a later one with the same name."""
    state: StreamState = msgspec.field(default_factory=StreamState)
    """State of its messages."""
    domain: str = ""
    """JetStream domain."""
    cluster: ClusterInfo | None = None
    """Servers that have it."""
    mirror: StreamSourceInfo | None = None
    """State of the copy, for a mirror."""
    sources: list[StreamSourceInfo] | None = None
    """State of its sources."""
    alternates: list[StreamAlternate] | None = None
    """Mirrors that can also serve reads, best first."""
    ts: TimestampField | None = None
    """Time of this information."""


class SequenceInfo(JsonStruct):
    """Position of a consumer."""

    consumer_sequence: int = field(default=0, name="consumer_seq")
    """Number of the delivery."""
    stream_sequence: int = field(default=0, name="stream_seq")
    """Sequence in the stream."""
    last_active: TimestampField | None = None
    """Time of the last activity."""


class PriorityGroupState(JsonStruct):
    """State of a priority group (ADR-42)."""

    group: str = ""
    """Name of the group."""
    pinned_client_id: str = ""
    """Id of the pinned client, empty if there is none."""
    pinned_ts: TimestampField | None = None
    """Time at which it was pinned."""

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
    """When it was created."""
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    """Configuration, with the server's defaults filled in."""
    delivered: SequenceInfo = msgspec.field(default_factory=SequenceInfo)
    """Position of the last delivered message."""
    ack_floor: SequenceInfo = msgspec.field(default_factory=SequenceInfo)
    """Position up to which all messages are acknowledged."""
    num_ack_pending: int = 0
    """Number of messages that wait for acknowledgement."""
    num_redelivered: int = 0
    """Number of these messages that were delivered more than once."""
    num_waiting: int = 0
    """Number of open pulls."""
    num_pending: int = 0
    """Number of messages that match and were not delivered yet."""
    cluster: ClusterInfo | None = None
    """Servers that have it."""
    push_bound: bool = False
    """Whether a subscription listens on the deliver subject."""
    paused: bool = False
    """Whether it delivers nothing until `config.pause_until`."""
    pause_remaining: DurationField = _ZERO
    """Remaining time of the pause."""
    ts: TimestampField | None = None
    """Time of this information."""
    priority_groups: list[PriorityGroupState] | None = None
    """State of its priority groups."""


class ConsumerReset(ConsumerInfo):
    """Answer to a reset: the consumer as it is now, and where it continues."""

    sequence: int = field(default=0, name="reset_seq")
    """Sequence of the stream at which it continues."""


class ConsumerPause(JsonStruct):
    """Answer to pausing or resuming a consumer."""

    paused: bool = False
    """Whether it is paused now."""
    pause_until: TimestampField | None = None
    """End of the pause, None if it is not paused."""
    pause_remaining: DurationField = _ZERO
    """Remaining time of the pause."""

    def __post_init__(self) -> None:
        """Read the server's year 1 as "never"."""
        if self.pause_until == _NEVER:
            self.pause_until = None


class PubAck(JsonStruct):
    """Acknowledgement of a publish: the message is stored."""

    stream: str
    """Stream that stored it."""
    sequence: int = field(name="seq")
    """Its sequence; for a batch, the sequence of the last message."""
    duplicate: bool = False
    """Whether the stream already had the message id; then `sequence` is the first message's, and nothing was stored."""
    domain: str = ""
    """JetStream domain."""
    val: str = ""
    """New value of a counter (ADR-49)."""
    batch: str = ""
    """Id of the batch (ADR-50)."""
    count: int = 0
    """Number of messages that the batch stored (ADR-50)."""
