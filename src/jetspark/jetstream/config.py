"""Configurations of streams and consumers, all fields of nats-server 2.15.

None means unset: the field is not sent, and the server uses its default. Durations are `timedelta`, times are aware
`datetime`; values from the server are exact to the nanosecond (`jetspark.jetstream.times`). Fields of newer servers are
kept in `extra`. The server checks a configuration by the rules of its version; the library checks only names.
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
    """When the server removes a message from the stream."""

    LIMITS = "limits"
    """When a limit of age, size or number is reached."""
    INTEREST = "interest"
    """When all consumers that match it have acknowledged it."""
    WORK_QUEUE = "workqueue"
    """When its only consumer has acknowledged it."""


class DiscardPolicy(JsonEnum):
    """Behaviour when a limit is reached."""

    OLD = "old"
    """Delete the oldest messages."""
    NEW = "new"
    """Refuse new messages."""


class StorageType(JsonEnum):
    """Where messages are stored."""

    FILE = "file"
    """In files."""
    MEMORY = "memory"
    """In memory; a restart of the server loses them."""


class StoreCompression(JsonEnum):
    """Compression of the file store."""

    NONE = "none"
    """No compression."""
    S2 = "s2"
    """The S2 algorithm, a fast variant of Snappy."""


class PersistMode(JsonEnum):
    """When the server acknowledges a message to its publisher."""

    DEFAULT = "default"
    """After the message is written."""
    ASYNC = "async"
    """Possibly before it is written: a killed server may lose it."""


class DeliverPolicy(JsonEnum):
    """Where in the stream a consumer starts."""

    ALL = "all"
    """With the first message."""
    LAST = "last"
    """With the last message."""
    NEW = "new"
    """With the next message that is stored."""
    BY_START_SEQUENCE = "by_start_sequence"
    """With the sequence `opt_start_seq`."""
    BY_START_TIME = "by_start_time"
    """With the first message stored at or after `opt_start_time`."""
    LAST_PER_SUBJECT = "last_per_subject"
    """With the last message of each subject."""


class AckPolicy(JsonEnum):
    """Which acknowledgements a consumer needs."""

    NONE = "none"
    """No acknowledgements."""
    ALL = "all"
    """An acknowledgement also counts for all earlier messages."""
    EXPLICIT = "explicit"
    """One acknowledgement for every message."""
    FLOW_CONTROL = "flow_control"
    """Like ALL, but answers to flow control requests acknowledge (push only)."""


class ReplayPolicy(JsonEnum):
    """How fast a consumer delivers stored messages."""

    INSTANT = "instant"
    """As fast as the client can take them."""
    ORIGINAL = "original"
    """At the rate at which they were stored."""


class PriorityPolicy(JsonEnum):
    """How the server serves the pulls of a priority group (ADR-42)."""

    NONE = "none"
    """No priority groups."""
    OVERFLOW = "overflow"
    """Only if enough messages are pending."""
    PINNED_CLIENT = "pinned_client"
    """One client at a time."""
    PRIORITIZED = "prioritized"
    """Lower numbers first."""


class Placement(JsonStruct):
    """Servers of a cluster on which a stream or leader should be placed."""

    cluster: str | None = None
    """Name of the cluster."""
    tags: list[str] | None = None
    """Tags that the servers must have."""
    preferred: str | None = None
    """Name of the preferred leader."""


class SubjectTransform(JsonStruct):
    """Rule that rewrites subjects."""

    src: str = ""
    """Filter of the subjects to rewrite; empty for all."""
    dest: str = ""
    """New subject; it may have functions such as `{{wildcard(1)}}`."""


class Republish(JsonStruct):
    """Rule that publishes every stored message again, to another subject."""

    dest: str
    """Subject to publish to; it may have functions such as `{{wildcard(1)}}`."""
    src: str | None = None
    """Filter of the subjects to publish again; unset for all."""
    headers_only: bool | None = None
    """Whether to leave out the payload."""


class ExternalStream(JsonStruct):
    """How to reach a stream of another account or domain."""

    api: str
    """Prefix of its JetStream API, without a final dot."""
    deliver: str = ""
    """Prefix of the subjects that it delivers to."""


class StreamConsumerSource(JsonStruct):
    """A durable consumer from which a mirror or source reads."""

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
    """Copy only messages whose subject matches."""
    subject_transforms: list[SubjectTransform] | None = None
    """Filters with rules that rewrite the subjects."""
    external: ExternalStream | None = None
    """How to reach the stream, if it is in another account or domain."""
    consumer: StreamConsumerSource | None = None
    """Durable consumer to read from, instead of one that the server creates."""


class StreamConsumerLimits(JsonStruct):
    """Defaults and upper limits for the consumers of a stream."""

    inactive_threshold: DurationField | None = None
    """Time without use after which the server deletes a consumer."""
    max_ack_pending: int | None = None
    """Maximum number of messages that wait for acknowledgement."""


class StreamConfig(JsonStruct):
    """Configuration of a stream. Only the name is required."""

    name: str
    """Name, one subject token."""
    description: str | None = None
    """Free text, at most 4 KiB."""
    subjects: list[str] | None = None
    """Subjects that the stream captures; by default its name, unless mirror or sources are set."""
    retention: RetentionPolicy | None = None
    """When messages are removed; limits by default. Later, limits and interest can be exchanged; work queue cannot."""
    max_consumers: int | None = None
    """Maximum number of consumers, -1 for no limit."""
    max_msgs: int | None = None
    """Maximum number of messages, -1 for no limit."""
    max_bytes: int | None = None
    """Maximum size in bytes, -1 for no limit."""
    max_age: DurationField | None = None
    """Maximum age of a message, zero for no limit."""
    max_msgs_per_subject: int | None = None
    """Maximum number of messages of one subject, -1 for no limit."""
    max_msg_size: int | None = None
    """Maximum bytes of one message, headers included; -1 for no limit."""
    discard: DiscardPolicy | None = None
    """Behaviour when a limit is reached; by default old messages are deleted."""
    storage: StorageType | None = None
    """Where messages are stored; file by default. Cannot be changed later."""
    num_replicas: int | None = None
    """Number of replicas in the cluster, 1 to 5; 1 by default."""
    no_ack: bool | None = None
    """Whether publishes get no acknowledgement."""
    duplicate_window: DurationField | None = None
    """How long message ids are remembered; 2 minutes by default."""
    placement: Placement | None = None
    """Placement of the stream in the cluster."""
    mirror: StreamSource | None = None
    """Stream that this stream copies."""
    sources: list[StreamSource] | None = None
    """Streams whose messages are copied into this one."""
    compression: StoreCompression | None = None
    """Compression of the file store; none by default."""
    first_seq: int | None = None
    """Sequence of the first message; 1 by default."""
    subject_transform: SubjectTransform | None = None
    """Rule that rewrites the subjects of incoming messages."""
    republish: Republish | None = None
    """Rule that publishes stored messages again."""
    allow_direct: bool | None = None
    """Whether messages can be read by direct get, from any replica (ADR-31)."""
    mirror_direct: bool | None = None
    """Whether a mirror answers direct gets of its origin."""
    discard_new_per_subject: bool | None = None
    """With discard policy new: whether to refuse messages also by `max_msgs_per_subject`."""
    sealed: bool | None = None
    """Whether messages can neither be added nor removed. Set only by an update; cannot be undone."""
    deny_delete: bool | None = None
    """Whether deleting single messages is denied. Cannot be undone."""
    deny_purge: bool | None = None
    """Whether purging is denied. Cannot be undone."""
    allow_rollup_hdrs: bool | None = None
    """Whether a message may replace all earlier ones (header `Nats-Rollup`)."""
    consumer_limits: StreamConsumerLimits | None = None
    """Defaults and limits for consumers."""
    allow_msg_ttl: bool | None = None
    """Whether messages may have a time to live (ADR-43)."""
    subject_delete_marker_ttl: DurationField | None = None
    """How long the delete marker stays after the last message of a subject was removed by age (ADR-43)."""
    allow_msg_counter: bool | None = None
    """Whether the stream's messages are counters (ADR-49)."""
    allow_atomic: bool | None = None
    """Whether atomic batches are allowed (ADR-50)."""
    allow_msg_schedules: bool | None = None
    """Whether messages may be scheduled (ADR-51)."""
    persist_mode: PersistMode | None = None
    """When messages are acknowledged."""
    allow_batched: bool | None = None
    """Whether fast batches are allowed, which are acknowledged by window (ADR-50)."""
    metadata: dict[str, str] | None = None
    """Free texts by key; keys that start with `_nats.` are the server's."""


class ConsumerConfig(JsonStruct):
    """Configuration of a consumer. With `deliver_subject` it is a push consumer, without it a pull consumer."""

    name: str | None = None
    """Name; a random one if unset."""
    durable_name: str | None = None
    """Name of a durable consumer. Must be equal to `name` if both are given."""
    description: str | None = None
    """Free text, at most 4 KiB."""
    deliver_policy: DeliverPolicy | None = None
    """Where to start; all by default."""
    opt_start_seq: int | None = None
    """Sequence to start at, with `by_start_sequence`."""
    opt_start_time: TimestampField | None = None
    """Time to start at, with `by_start_time`."""
    ack_policy: AckPolicy | None = None
    """Which acknowledgements are needed. For the server, unset means `none`; the library's calls send `explicit`."""
    ack_wait: DurationField | None = None
    """How long to wait for an acknowledgement before the message is redelivered; 30 s by default."""
    max_deliver: int | None = None
    """Maximum number of deliveries of a message, -1 for no limit."""
    backoff: list[DurationField] | None = None
    """Waits before each redelivery, instead of `ack_wait`."""
    filter_subject: str | None = None
    """Deliver only messages whose subject matches."""
    filter_subjects: list[str] | None = None
    """Several filters, which must not overlap."""
    replay_policy: ReplayPolicy | None = None
    """How fast stored messages are delivered; instant by default."""
    rate_limit_bps: int | None = None
    """Maximum bits per second (push only)."""
    sample_freq: str | None = None
    """Percentage of acknowledgements that are reported in advisories: `30%` or `30`."""
    max_waiting: int | None = None
    """Maximum number of open pulls; 512 by default (pull only)."""
    max_ack_pending: int | None = None
    """Maximum number of messages that wait for acknowledgement; 1000 by default, -1 for no limit."""
    flow_control: bool | None = None
    """Whether to use flow control (push only, needs `idle_heartbeat`)."""
    headers_only: bool | None = None
    """Whether to leave out payloads; their size is in the header `Nats-Msg-Size`."""
    max_batch: int | None = None
    """Maximum number of messages that one pull may request."""
    max_expires: DurationField | None = None
    """Maximum time that one pull may stay open."""
    max_bytes: int | None = None
    """Maximum bytes that one pull may request."""
    deliver_subject: str | None = None
    """Subject to push to."""
    deliver_group: str | None = None
    """Queue group of the subscribers that share the messages (push only)."""
    idle_heartbeat: DurationField | None = None
    """Time without a message after which a heartbeat is sent, at least 100 ms (push only; each pull has its own)."""
    inactive_threshold: DurationField | None = None
    """Time without use after which the server deletes the consumer; 5 s by default if it is not durable."""
    num_replicas: int | None = None
    """Number of replicas in the cluster; 0 for as many as the stream has."""
    mem_storage: bool | None = None
    """Whether to keep the consumer's state in memory."""
    direct: bool | None = None
    """Internal to servers: a consumer of a mirror or source."""
    sourcing: bool | None = None
    """Internal to servers: a durable consumer of a mirror or source."""
    metadata: dict[str, str] | None = None
    """Free texts by key; keys that start with `_nats.` are the server's."""
    pause_until: TimestampField | None = None
    """Deliver nothing before this time."""
    priority_groups: list[str] | None = None
    """Priority groups; servers support one at present (pull only, ADR-42)."""
    priority_policy: PriorityPolicy | None = None
    """How the groups' pulls are served."""
    priority_timeout: DurationField | None = None
    """Time without a pull after which a pinned client is replaced; 2 minutes by default."""

    def starting_after(self, sequence: int) -> Self:
        """Return the same configuration, starting with the message after that stream sequence."""
        return self.replace(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence + 1, opt_start_time=None
        )
