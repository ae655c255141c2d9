"""Configurations of streams and consumers, all fields of nats-server 2.15.

None means unset: the field is not sent and the server's default holds. Durations are `timedelta`, times are aware
`datetime`; both come back exact to the nanosecond (`jetspark.jetstream.times`). Fields that a newer server adds are
kept in `extra`. The server checks a configuration, as it knows the rules of its version; only names are checked here.
"""

from typing import Self

from jetspark.jetstream.codec import JsonEnum, JsonStruct
from jetspark.jetstream.times import DurationField, TimestampField

__all__ = [
    "AckPolicy",
    "ConsumerConfig",
    "DeliverPolicy",
    "DiscardPolicy",
    "ExternalStream",
    "PersistMode",
    "Placement",
    "PriorityPolicy",
    "ReplayPolicy",
    "Republish",
    "RetentionPolicy",
    "StorageType",
    "StoreCompression",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamSource",
    "SubjectTransform",
]


class RetentionPolicy(JsonEnum):
    """What makes a message leave the stream."""

    LIMITS = "limits"
    """A limit of age, size or number."""
    INTEREST = "interest"
    """All consumers that want it have acknowledged it."""
    WORK_QUEUE = "workqueue"
    """Its one consumer has acknowledged it."""


class DiscardPolicy(JsonEnum):
    """What happens when a limit is reached."""

    OLD = "old"
    """The oldest messages go."""
    NEW = "new"
    """New messages are refused."""


class StorageType(JsonEnum):
    """Where messages are kept."""

    FILE = "file"
    MEMORY = "memory"


class StoreCompression(JsonEnum):
    """Compression of the file store."""

    NONE = "none"
    S2 = "s2"


class PersistMode(JsonEnum):
    """When a message is acknowledged to its publisher."""

    DEFAULT = "default"
    """After it was written."""
    ASYNC = "async"
    """Perhaps before: a killed server may lose it."""


class DeliverPolicy(JsonEnum):
    """Where in the stream a consumer starts."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(JsonEnum):
    """What a consumer's messages need as acknowledgement."""

    NONE = "none"
    """Nothing."""
    ALL = "all"
    """One acknowledgement counts for all earlier messages too."""
    EXPLICIT = "explicit"
    """Every message its own."""
    FLOW_CONTROL = "flow_control"
    """As ALL, given by the answers to flow control (push only)."""


class ReplayPolicy(JsonEnum):
    """How fast a consumer delivers what is stored."""

    INSTANT = "instant"
    ORIGINAL = "original"
    """With the pauses with which it was stored."""


class PriorityPolicy(JsonEnum):
    """How the pulls of a priority group are served (ADR-42)."""

    NONE = "none"
    OVERFLOW = "overflow"
    """Only when enough messages wait."""
    PINNED_CLIENT = "pinned_client"
    """One client at a time."""
    PRIORITIZED = "prioritized"
    """Lower numbers first."""


class Placement(JsonStruct):
    """Where in a cluster something should live."""

    cluster: str | None = None
    """Name of the cluster."""
    tags: list[str] | None = None
    """Tags that the servers must have."""
    preferred: str | None = None
    """Name of the server that should lead."""


class SubjectTransform(JsonStruct):
    """Rule that rewrites subjects."""

    src: str = ""
    """Filter of the subjects that are rewritten; empty for all."""
    dest: str = ""
    """What they become, with `{{wildcard(1)}}` and the like."""


class Republish(JsonStruct):
    """Every stored message is published again under another subject."""

    dest: str
    """Subject to publish to, with `{{wildcard(1)}}` and the like."""
    src: str | None = None
    """Filter of the subjects that are published again; unset for all."""
    headers_only: bool | None = None
    """Leave the payload out."""


class ExternalStream(JsonStruct):
    """How to reach a stream of another account or domain."""

    api: str
    """Prefix of its JetStream API, without a final dot."""
    deliver: str = ""
    """Prefix of the subjects that it delivers to."""


class StreamConsumerSource(JsonStruct):
    """A durable consumer that a mirror or source reads by."""

    name: str | None = None
    """Name of the consumer."""
    deliver_subject: str | None = None
    """Subject that it delivers to."""


class StreamSource(JsonStruct):
    """Stream that is mirrored or sourced."""

    name: str
    """Name of that stream."""
    opt_start_seq: int | None = None
    """First sequence to copy."""
    opt_start_time: TimestampField | None = None
    """Time of the first message to copy."""
    filter_subject: str | None = None
    """Copy only what matches."""
    subject_transforms: list[SubjectTransform] | None = None
    """Filters with rules that rewrite the subjects."""
    external: ExternalStream | None = None
    """How to reach it, when it is of another account or domain."""
    consumer: StreamConsumerSource | None = None
    """Durable consumer to read by, instead of one that the server makes."""


class StreamConsumerLimits(JsonStruct):
    """Defaults and upper limits for the consumers of a stream."""

    inactive_threshold: DurationField | None = None
    """Consumers that nobody uses for so long go."""
    max_ack_pending: int | None = None
    """Messages that may wait for acknowledgement."""


class StreamConfig(JsonStruct):
    """Configuration of a stream. Only the name is needed."""

    name: str
    """Name, one subject token."""
    description: str | None = None
    """Text for people, at most 4 KiB."""
    subjects: list[str] | None = None
    """Subjects that the stream stores; the name when unset (and neither mirror nor sources are set)."""
    retention: RetentionPolicy | None = None
    """What makes a message leave; limits by default. Limits and interest can be exchanged later, work queue cannot."""
    max_consumers: int | None = None
    """Most consumers, -1 for no limit."""
    max_msgs: int | None = None
    """Most messages, -1 for no limit."""
    max_bytes: int | None = None
    """Most bytes, -1 for no limit."""
    max_age: DurationField | None = None
    """Greatest age of a message, zero for no limit."""
    max_msgs_per_subject: int | None = None
    """Most messages of one subject, -1 for no limit."""
    max_msg_size: int | None = None
    """Most bytes of one message, headers included; -1 for no limit."""
    discard: DiscardPolicy | None = None
    """What happens when a limit is reached; old messages go by default."""
    storage: StorageType | None = None
    """Where messages are kept; file by default. Cannot be changed later."""
    num_replicas: int | None = None
    """Copies in the cluster, 1 to 5; 1 by default."""
    no_ack: bool | None = None
    """Publishes are not acknowledged."""
    duplicate_window: DurationField | None = None
    """How long message ids are remembered; 2 minutes by default."""
    placement: Placement | None = None
    """Where in the cluster the stream lives."""
    mirror: StreamSource | None = None
    """Stream that this one is a copy of."""
    sources: list[StreamSource] | None = None
    """Streams that are copied into this one."""
    compression: StoreCompression | None = None
    """Compression of the file store; none by default."""
    first_seq: int | None = None
    """Sequence of the first message; 1 by default."""
    subject_transform: SubjectTransform | None = None
    """Rule that rewrites the subjects of incoming messages."""
    republish: Republish | None = None
    """Rule that publishes stored messages again."""
    allow_direct: bool | None = None
    """Messages can be read by direct get, from any replica (ADR-31)."""
    mirror_direct: bool | None = None
    """A mirror answers direct gets of its origin."""
    discard_new_per_subject: bool | None = None
    """With discard policy new: refuse also by `max_msgs_per_subject`."""
    sealed: bool | None = None
    """Nothing goes in or out any more. Only by update, and for good."""
    deny_delete: bool | None = None
    """Single messages cannot be deleted. For good."""
    deny_purge: bool | None = None
    """The stream cannot be purged. For good."""
    allow_rollup_hdrs: bool | None = None
    """A message may replace all earlier ones (header `Nats-Rollup`)."""
    consumer_limits: StreamConsumerLimits | None = None
    """Defaults and limits for consumers."""
    allow_msg_ttl: bool | None = None
    """Messages may have a time to live (ADR-43)."""
    subject_delete_marker_ttl: DurationField | None = None
    """How long a marker stays where the last message of a subject went by age (ADR-43)."""
    allow_msg_counter: bool | None = None
    """The stream's messages are counters (ADR-49)."""
    allow_atomic: bool | None = None
    """Batches that are stored as a whole or not at all (ADR-50)."""
    allow_msg_schedules: bool | None = None
    """Messages may be scheduled (ADR-51)."""
    persist_mode: PersistMode | None = None
    """When messages are acknowledged."""
    allow_batched: bool | None = None
    """Fast batches, acknowledged by the window (ADR-50)."""
    metadata: dict[str, str] | None = None
    """Free texts by key; keys that start with `_nats.` are the server's."""


class ConsumerConfig(JsonStruct):
    """Configuration of a consumer. With `deliver_subject` it pushes, without one it is pulled from."""

    name: str | None = None
    """Name; made up when unset."""
    durable_name: str | None = None
    """Name of a consumer that outlives its users. The same as `name` when both are given."""
    description: str | None = None
    """Text for people, at most 4 KiB."""
    deliver_policy: DeliverPolicy | None = None
    """Where to start; all by default."""
    opt_start_seq: int | None = None
    """Sequence to start at, with `by_start_sequence`."""
    opt_start_time: TimestampField | None = None
    """Time to start at, with `by_start_time`."""
    ack_policy: AckPolicy | None = None
    """What acknowledgement is needed. The server takes unset as `none`; the library's calls ask for `explicit`."""
    ack_wait: DurationField | None = None
    """How long to wait for an acknowledgement before the message is delivered again; 30 s by default."""
    max_deliver: int | None = None
    """Most deliveries of a message, -1 for no limit."""
    backoff: list[DurationField] | None = None
    """Waits before each redelivery, instead of `ack_wait`."""
    filter_subject: str | None = None
    """Deliver only what matches."""
    filter_subjects: list[str] | None = None
    """Several filters, which must not overlap."""
    replay_policy: ReplayPolicy | None = None
    """How fast stored messages are delivered; instant by default."""
    rate_limit_bps: int | None = None
    """Most bits a second (push only)."""
    sample_freq: str | None = None
    """Share of acknowledgements that are reported in advisories: `30%` or `30`."""
    max_waiting: int | None = None
    """Most open pulls; 512 by default (pull only)."""
    max_ack_pending: int | None = None
    """Messages that may wait for acknowledgement; 1000 by default, -1 for no limit."""
    flow_control: bool | None = None
    """Deliveries wait for answers (push only, needs `idle_heartbeat`)."""
    headers_only: bool | None = None
    """Leave payloads out; their size is in the header `Nats-Msg-Size`."""
    max_batch: int | None = None
    """Most messages that one pull may ask for."""
    max_expires: DurationField | None = None
    """Longest time that one pull may stay open."""
    max_bytes: int | None = None
    """Most bytes that one pull may ask for."""
    deliver_subject: str | None = None
    """Subject to push to."""
    deliver_group: str | None = None
    """Queue group that shares what is pushed."""
    idle_heartbeat: DurationField | None = None
    """Heartbeat after so much silence, at least 100 ms (push only; pulls state their own)."""
    inactive_threshold: DurationField | None = None
    """The consumer goes when nobody used it for so long; 5 s for those without durable name."""
    num_replicas: int | None = None
    """Copies in the cluster; 0 for as many as the stream has."""
    mem_storage: bool | None = None
    """Keep the consumer's state in memory."""
    direct: bool | None = None
    """Internal to servers: a consumer of a mirror or source."""
    sourcing: bool | None = None
    """Internal to servers: a durable consumer of a mirror or source."""
    metadata: dict[str, str] | None = None
    """Free texts by key; keys that start with `_nats.` are the server's."""
    pause_until: TimestampField | None = None
    """Deliver nothing before that time."""
    priority_groups: list[str] | None = None
    """Priority groups, at present one (pull only, ADR-42)."""
    priority_policy: PriorityPolicy | None = None
    """How the groups' pulls are served."""
    priority_timeout: DurationField | None = None
    """How long a pinned client may be silent; 2 minutes by default."""

    def starting_behind(self, sequence: int) -> Self:
        """The same consumer, but from the message behind that stream sequence on."""
        return self.replace(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence + 1, opt_start_time=None
        )
