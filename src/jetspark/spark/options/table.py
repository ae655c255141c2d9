"""The options of `format("jetstream")`: one table, by which they are parsed, checked and documented.

Names are in camel case, and equal to those of Spark's Kafka source where the meaning is the same. Spark ignores the
case of option names. Rules for several options together are in the modules of each kind of read and write.
"""

from __future__ import annotations

from typing import Final

from jetspark.spark.options.option import Option
from jetspark.spark.options.tables.content import *
from jetspark.spark.options.tables.dead_letters import *
from jetspark.spark.options.tables.payload import *
from jetspark.spark.options.tables.read import *
from jetspark.spark.options.tables.server import *
from jetspark.spark.options.tables.stream_read import *
from jetspark.spark.options.tables.write import *

__all__ = ["OPTIONS", "markdown_table"]

# fmt: off
OPTIONS: Final[tuple[Option[object], ...]] = (
    SERVERS, CONTEXT, USER, PASSWORD, TOKEN, CREDENTIALS, CREDENTIALS_TEXT, NKEY_SEED,
    TLS_CA, TLS_CERT, TLS_KEY, TLS_KEY_PASSWORD, TLS_HOSTNAME, TLS_VERIFY, TLS_FIRST,
    DOMAIN, API_PREFIX, INBOX_PREFIX, CONSUMER_PREFIX,
    CONNECTION_NAME, CONNECT_TIMEOUT, MAX_CONTROL_LINE, REQUEST_TIMEOUT,
    STREAM, STREAM_PATTERN, SUBJECT, BUCKET, KEYS, HISTORY, INCLUDE_DELETES,
    OBJECTS, PATH_GLOB_FILTER, MAX_PARTITION_BYTES, MAX_OBJECT_SIZE, IGNORE_CORRUPT_FILES, IGNORE_MISSING_FILES,
    READ_MODE,
    STARTING_OFFSETS, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP, STARTING_STRATEGY,
    ENDING_OFFSETS, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP, MIN_PARTITIONS, MAX_RECORDS_PER_PARTITION,
    PUSH_DOWN_PREDICATE, INCLUDE_HEADERS, FAIL_ON_DATA_LOSS,
    ARROW_BATCH_ROWS, ARROW_BATCH_BYTES, MAX_BYTES_IN_FLIGHT, RETRY_TIMEOUT,
    MAX_OFFSETS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER, MAX_TRIGGER_DELAY, POLL_INTERVAL,
    INITIAL_SNAPSHOT, ALLOW_REMOVED_STREAMS, COMMIT_MODE, COMMIT_CONSUMER, ALLOW_PURGE,
    DEDUP, MAX_PENDING_ACKS, ACK_TIMEOUT, EXPECTED_STREAM, ON_CONFLICT,
    CONTROL_HEADERS, ATOMIC,
    LEDGER_STREAM, LEDGER_RETENTION, MAX_REPLAY_DELAY,
    PAYLOAD_FORMAT, METADATA_PREFIX, MODE, CORRUPT_RECORD_COLUMN, SAMPLING_SIZE,
    *OPTIONS_OF_FORMATS,
    DEAD_LETTER_SUBJECT, MAX_DEAD_LETTERS,
)
"""All options, in the order of the documentation."""
# fmt: on


def markdown_table() -> str:
    """Return the table of `docs/spark.md`: name, value, default, meaning, and the similar option of Kafka."""
    lines = ["| Option | For | Value | Default | Meaning | Like Kafka's |", "|---|---|---|---|---|---|"]
    for option in OPTIONS:
        kafka = f"`{option.kafka_option}`" if option.kafka_option else ""
        cells = (f"`{option.name}`", option.use.value, option.kind, option.default_text, option.meaning, kafka)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
