"""Key-value buckets as data: names, configurations, entries, status. No I/O."""

from jetspark.jetstream.key_value.config import KeyValueConfig
from jetspark.jetstream.key_value.config_keywords import KeyValueConfigFields
from jetspark.jetstream.key_value.entry import KeyValueEntry, KeyValueOperation
from jetspark.jetstream.key_value.snapshot import KeyValueSnapshot
from jetspark.jetstream.key_value.status import KeyValueStatus

__all__ = [
    "KeyValueConfig",
    "KeyValueConfigFields",
    "KeyValueEntry",
    "KeyValueOperation",
    "KeyValueSnapshot",
    "KeyValueStatus",
]
