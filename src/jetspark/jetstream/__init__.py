"""Data types of JetStream, without I/O: configurations, requests, replies, ack subjects, statuses and errors.

- `errors`: the error tree; `codec`: JSON to structs and back; `times`: exact times and durations;
- `config`, `info`, `account`: configuration and state of streams and consumers; use and limits of the account;
- `api`: requests as values, `api.pull` the body of a pull; `direct_get`: direct get, `stored_message` its result;
- `publish`: headers of a publish and its acknowledgement; `ack`: ack subjects; `status`: meaning of pull statuses;
- `key_value`: buckets of keys and values; `object_store`: buckets of objects; `buckets`: both kinds;
- `names`: checks of names and subjects; `header_names`: the headers that JetStream uses.
"""

from jetspark.jetstream.account import AccountInfo, AccountLimits, AccountTier, APIStats
from jetspark.jetstream.ack import AckMetadata, parse_ack_subject
from jetspark.jetstream.codec import JsonEnum, JsonStruct
from jetspark.jetstream.config import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    ExternalStream,
    PersistMode,
    Placement,
    PriorityPolicy,
    ReplayPolicy,
    Republish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetspark.jetstream.config_keywords import ConsumerConfigFields, StreamConfigFields
from jetspark.jetstream.counter import CounterValue
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest
from jetspark.jetstream.info import (
    APIErrorBody,
    ClusterInfo,
    ConsumerInfo,
    ConsumerPause,
    ConsumerReset,
    LostStreamData,
    PeerInfo,
    PriorityGroupState,
    PubAck,
    SequenceInfo,
    StreamAlternate,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)
from jetspark.jetstream.key_value import (
    KeyValueConfig,
    KeyValueConfigFields,
    KeyValueEntry,
    KeyValueOperation,
    KeyValueSnapshot,
    KeyValueStatus,
)
from jetspark.jetstream.object_store import (
    ObjectInfo,
    ObjectLink,
    ObjectOptions,
    ObjectStoreConfig,
    ObjectStoreConfigFields,
    ObjectStoreStatus,
)
from jetspark.jetstream.publish import PublishFields, PublishOptions, schedule_at, schedule_every
from jetspark.jetstream.schedule import Schedule
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import Duration, Timestamp

__all__ = [
    "APIErrorBody",
    "APIStats",
    "AccountInfo",
    "AccountLimits",
    "AccountTier",
    "AckMetadata",
    "AckPolicy",
    "ClusterInfo",
    "ConsumerConfig",
    "ConsumerConfigFields",
    "ConsumerInfo",
    "ConsumerPause",
    "ConsumerReset",
    "CounterValue",
    "DeliverPolicy",
    "DirectGetRequest",
    "DirectLastRequest",
    "DiscardPolicy",
    "Duration",
    "ExternalStream",
    "JsonEnum",
    "JsonStruct",
    "KeyValueConfig",
    "KeyValueConfigFields",
    "KeyValueEntry",
    "KeyValueOperation",
    "KeyValueSnapshot",
    "KeyValueStatus",
    "LostStreamData",
    "ObjectInfo",
    "ObjectLink",
    "ObjectOptions",
    "ObjectStoreConfig",
    "ObjectStoreConfigFields",
    "ObjectStoreStatus",
    "PeerInfo",
    "PersistMode",
    "Placement",
    "PriorityGroupState",
    "PriorityPolicy",
    "PubAck",
    "PublishFields",
    "PublishOptions",
    "ReplayPolicy",
    "Republish",
    "RetentionPolicy",
    "Schedule",
    "SequenceInfo",
    "StorageType",
    "StoreCompression",
    "StoredMessage",
    "StreamAlternate",
    "StreamConfig",
    "StreamConfigFields",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamInfo",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
    "Timestamp",
    "parse_ack_subject",
    "schedule_at",
    "schedule_every",
]
