"""The options of `format("jetstream")`: one table, by which they are parsed, checked and documented.

Names are in camel case, and equal to those of Spark's Kafka source where the meaning is the same. Spark ignores the
case of option names. Rules for several options together are in the modules of each kind of read and write.
"""

from __future__ import annotations

import re
from typing import Final

from jetspark.jetstream.key_value.names import check_filters
from jetspark.jetstream.names import check_consumer_name, check_publish_subject, check_stream_name
from jetspark.spark.options.globs import parse_glob
from jetspark.spark.options.option import Option, Use
from jetspark.spark.options.values import (
    Position,
    PositionKind,
    one_of,
    parse_boolean,
    parse_bucket,
    parse_count,
    parse_duration,
    parse_line_size,
    parse_object_store,
    parse_offsets,
    parse_servers,
    parse_size,
    parse_streams,
    parse_subjects,
    parse_text,
    parse_text_list,
    parse_time,
    parse_times,
    with_minimum,
)

__all__ = ["OPTIONS", "markdown_table"]

NONE: Final = "none"

# The table is formatted by hand, so that an option has two or three lines.
# fmt: off

SERVERS: Final = Option[tuple[str, ...] | None](
    "servers", "list of URLs", parse_servers, None, "`NATS_URL`, else `nats://localhost:4222`",
    "Servers to connect to, `nats://` or `tls://`, tried in random order.", kafka_option="kafka.bootstrap.servers",
    secret=True,
)
USER: Final = Option[str | None]("user", "text", parse_text, None, NONE, "User name.", secret=True)
PASSWORD: Final = Option[str | None](
    "password", "text", str, None, NONE, "The user's password.", kafka_option="kafka.sasl.jaas.config", secret=True
)
TOKEN: Final = Option[str | None]("token", "text", parse_text, None, NONE, "Token.", secret=True)
CREDENTIALS: Final = Option[str | None](
    "credentials", "path", parse_text, None, NONE,
    "Path of a `.creds` file. The file must exist on the driver and on every executor.",
)
CREDENTIALS_TEXT: Final = Option[str | None](
    "credentialsText", "text", parse_text, None, NONE, "The content of a `.creds` file.", secret=True
)
NKEY_SEED: Final = Option[str | None]("nkeySeed", "text", parse_text, None, NONE, "Seed of an nkey.", secret=True)
TLS_CA: Final = Option[str | None](
    "tlsCa", "path", parse_text, None, "the system's", "PEM file with the CA certificates to trust.",
    kafka_option="kafka.ssl.truststore.location",
)
TLS_CERT: Final = Option[str | None](
    "tlsCert", "path", parse_text, None, NONE, "PEM file with the client's certificate.",
    kafka_option="kafka.ssl.keystore.location",
)
TLS_KEY: Final = Option[str | None](
    "tlsKey",
    "path",
    parse_text,
    None,
    "in `tlsCert`",
    "PEM file with the client's key.",
    kafka_option="kafka.ssl.keystore.key",
)
TLS_KEY_PASSWORD: Final = Option[str | None](
    "tlsKeyPassword", "text", str, None, NONE, "Password of the client's key.", kafka_option="kafka.ssl.key.password",
    secret=True,
)
TLS_HOSTNAME: Final = Option[str | None](
    "tlsHostname", "text", parse_text, None, "the address", "Name that the server's certificate must carry."
)
TLS_VERIFY: Final = Option[bool](
    "tlsVerify", "true or false", parse_boolean, True, "true",
    "Check the server's certificate. Without this check, any host can pretend to be the server.",
    kafka_option="kafka.ssl.endpoint.identification.algorithm",
)
TLS_FIRST: Final = Option[bool](
    "tlsFirst", "true or false", parse_boolean, False, "false", "Start TLS before the server sends its first message."
)
DOMAIN: Final = Option[str | None]("domain", "text", parse_text, None, NONE, "JetStream domain.")
API_PREFIX: Final = Option[str | None](
    "apiPrefix", "subject", parse_text, None, "`$JS.API`", "Prefix of the JetStream API that another account exports."
)
INBOX_PREFIX: Final = Option[str](
    "inboxPrefix", "subject", lambda text: check_publish_subject(parse_text(text)), "_INBOX", "`_INBOX`",
    "Prefix of the reply subjects.",
)
CONNECTION_NAME: Final = Option[str](
    "connectionName", "text", parse_text, "jetspark-spark", "`jetspark-spark`",
    "Name of the connections, shown by the server's monitoring.", kafka_option="kafka.client.id",
)
CONNECT_TIMEOUT: Final = Option[float](
    "connectTimeout", "duration", parse_duration, 5.0, "5s", "Longest time to connect to one server.",
    kafka_option="kafka.socket.connection.setup.timeout.ms",
)
MAX_CONTROL_LINE: Final = Option[int](
    "maxControlLine", "number of bytes", parse_line_size, 4096, "4096",
    "`max_control_line` of the servers. Longer subjects are refused.",
)
REQUEST_TIMEOUT: Final = Option[float](
    "requestTimeout", "duration", parse_duration, 5.0, "5s", "Longest wait for a reply of the JetStream API.",
    kafka_option="kafka.request.timeout.ms",
)

STREAM: Final = Option[tuple[str, ...]](
    "stream", "list of names", parse_streams, (), "it, `bucket` or `objects` must be given",
    "Name of the stream to read, or several names.", Use.READ, "subscribe"
)
SUBJECT: Final = Option[tuple[str, ...]](
    "subject", "list of subjects", parse_subjects, (), "everything",
    "Read: only messages whose subject matches one of these filters (`*` one token, `>` the rest). The server filters. "
    "Write: the subject of all rows, instead of the column `subject`.", kafka_option="topic",
)
BUCKET: Final = Option[str | None](
    "bucket", "name", parse_bucket, None, NONE,
    "Key-value bucket to read or to write, instead of the options `stream` and `subject`.",
)
OBJECTS: Final = Option[str | None](
    "objects", "name", parse_object_store, None, NONE,
    "Object store to read or to write, instead of the options `stream` and `subject`.",
)
MAX_OBJECT_SIZE: Final = Option[int | None](
    "maxObjectSize", "size", parse_size, None, "read: `512m`, write: `64m`",
    "A larger object is an error. A task has the objects of a record batch in memory.",
)
PATH_GLOB_FILTER: Final = Option[re.Pattern[str] | None](
    "pathGlobFilter", "glob", parse_glob, None, NONE,
    "Only objects whose whole name matches: `*` any text, `?` one character, `[a-z]`, `[^a-z]`, `{jpg,png}`.", Use.READ,
)
MAX_PARTITION_BYTES: Final = Option[int](
    "maxPartitionBytes", "size", parse_size, 128 << 20, "128m",
    "Most bytes of the objects of one Spark partition. A larger object has a partition of its own.", Use.READ,
)
IGNORE_CORRUPT_FILES: Final = Option[bool](
    "ignoreCorruptFiles", "true or false", parse_boolean, False, "false",
    "Leave out objects that are damaged, with a warning; otherwise the read fails.", Use.READ,
)
IGNORE_MISSING_FILES: Final = Option[bool](
    "ignoreMissingFiles", "true or false", parse_boolean, False, "false",
    "Leave out objects that were deleted after the read was planned, with a warning; otherwise the read fails.",
    Use.READ,
)
KEYS: Final = Option[tuple[str, ...]](
    "keys", "list of keys", lambda text: check_filters(parse_text_list(text), ""), (), "all keys",
    "Only keys of the bucket that match one of these filters (`*` one token, `>` the rest). The server filters.",
    Use.READ,
)
HISTORY: Final = Option[bool](
    "history", "true or false", parse_boolean, False, "false",
    "A batch read returns every stored revision of the bucket, not only the newest one of each key.", Use.READ,
)
INCLUDE_DELETES: Final = Option[bool | None](
    "includeDeletes", "true or false", parse_boolean, None, "`false`; with `history` and streaming: `true`",
    "Return rows for deleted, purged and expired keys, too; their `value` is null.", Use.READ,
)
READ_MODE: Final = Option[str](
    "readMode", "`all` or `lastPerSubject`", one_of("all", "lastPerSubject"), "all", "`all`",
    "`lastPerSubject`: a batch read returns only the last message of every subject, all at the same moment.", Use.READ,
)
STARTING_OFFSETS: Final = Option[Position | dict[str, Position]](
    "startingOffsets", "`earliest`, `latest` or JSON", parse_offsets, Position(PositionKind.EARLIEST),
    "`earliest`; streaming: `latest`",
    'First sequence to read: `earliest`, `latest` (streaming only), or one for each stream, `{"ORDERS": 17}` (-2 is '
    "earliest, -1 latest). A streaming query that has a checkpoint continues from there.", Use.READ, "startingOffsets",
)
ENDING_OFFSETS: Final = Option[Position | dict[str, Position]](
    "endingOffsets", "`latest` or JSON", parse_offsets, Position(PositionKind.LATEST), "`latest`",
    'End of the read (excluded): `latest`, the end of the stream when the read is planned, or one sequence for each '
    'stream, `{"ORDERS": 42}` (-1 is latest).', Use.READ, "endingOffsets",
)
STARTING_TIMESTAMP: Final = Option[int | None](
    "startingTimestamp", "time", parse_time, None, NONE,
    "Read messages stored at or after this time: milliseconds since 1970, or `2026-03-01T12:00:00Z`. Overrides "
    "`startingOffsetsByTimestamp`, which overrides `startingOffsets`.", Use.READ, "startingTimestamp",
)
ENDING_TIMESTAMP: Final = Option[int | None](
    "endingTimestamp", "time", parse_time, None, NONE,
    "Read messages stored before this time. Overrides `endingOffsetsByTimestamp`, which overrides `endingOffsets`.",
    Use.READ, "endingTimestamp",
)
STARTING_BY_TIMESTAMP: Final = Option[dict[str, int] | None](
    "startingOffsetsByTimestamp", "JSON", parse_times, None, NONE,
    'Start time for each stream: `{"ORDERS": "2026-03-01T12:00:00Z"}`.', Use.READ, "startingOffsetsByTimestamp",
)
ENDING_BY_TIMESTAMP: Final = Option[dict[str, int] | None](
    "endingOffsetsByTimestamp", "JSON", parse_times, None, NONE, "End time (excluded) for each stream.", Use.READ,
    "endingOffsetsByTimestamp",
)
MIN_PARTITIONS: Final = Option[int | None](
    "minPartitions", "number", parse_count, None, "number of cores, with at least 50,000 sequences each",
    "Minimum number of Spark partitions, divided among the streams in proportion to their sequences to read.",
    Use.READ, "minPartitions",
)
MAX_RECORDS_PER_PARTITION: Final = Option[int | None](
    "maxRecordsPerPartition", "number", parse_count, None, NONE,
    "Maximum number of sequences of one Spark partition.", Use.READ, "maxRecordsPerPartition",
)
PUSH_DOWN_PREDICATE: Final = Option[bool | None](
    "pushDownPredicate", "true or false", parse_boolean, None, "`false` up to Spark 4.3, `true` on later versions",
    "Let the server apply the conditions of a batch read, where it can. Spark needs the setting "
    "`spark.sql.python.filterPushdown.enabled` for that. Up to Spark 4.3, the rows are then wrong if a DataFrame is "
    "used more than once.", Use.READ,
)
INCLUDE_HEADERS: Final = Option[bool](
    "includeHeaders", "true or false", parse_boolean, False, "false",
    "Add the column `headers`. If your own schema has the column, the option is not needed.", Use.READ,
    "includeHeaders",
)
FAIL_ON_DATA_LOSS: Final = Option[bool](
    "failOnDataLoss", "true or false", parse_boolean, True, "true",
    "Fail when requested messages are lost: they expired or were purged, or the stream was deleted and created again. "
    "With `false`, a warning names the lost sequences, and the rest is read.", Use.READ, "failOnDataLoss",
)
ARROW_BATCH_ROWS: Final = Option[int](
    "arrowBatchRows", "number", parse_count, 16_384, "16384", "Maximum number of rows of a record batch for Spark.",
    Use.READ, "kafka.max.poll.records",
)
ARROW_BATCH_BYTES: Final = Option[int](
    "arrowBatchBytes", "size", with_minimum(4096, parse_size), 8 << 20, "8m",
    "Size from which no more rows are added to a record batch.", Use.READ,
)
MAX_BYTES_IN_FLIGHT: Final = Option[int](
    "maxBytesInFlight", "size", with_minimum(4096, parse_size), 8 << 20, "8m",
    "Maximum bytes in flight from the server to one task.", Use.READ, "kafka.fetch.max.bytes",
)
RETRY_TIMEOUT: Final = Option[float](
    "retryTimeout", "duration", parse_duration, 30.0, "30s",
    "How long a task or the planning keeps trying while the server cannot be reached. A write does so only if its rows "
    "have message ids.", kafka_option="fetchOffset.numRetries",
)

MAX_OFFSETS_PER_TRIGGER: Final = Option[int | None](
    "maxOffsetsPerTrigger", "number", parse_count, None, NONE,
    "Maximum number of sequences of a micro-batch, including deleted and filtered messages. Several streams get equal "
    "shares of it; what a stream does not need goes to the others.", Use.READ_STREAM, "maxOffsetsPerTrigger",
)
MAX_BYTES_PER_TRIGGER: Final = Option[int | None](
    "maxBytesPerTrigger", "size", parse_size, None, NONE,
    "Approximate maximum bytes of a micro-batch, estimated from the average size of the stream's messages. With "
    "`maxOffsetsPerTrigger` the smaller limit applies.", Use.READ_STREAM,
)
MIN_OFFSETS_PER_TRIGGER: Final = Option[int | None](
    "minOffsetsPerTrigger", "number", parse_count, None, NONE,
    "Minimum number of sequences of a micro-batch. With fewer, the query waits, at most for `maxTriggerDelay`. "
    "`Trigger.AvailableNow` does not wait.", Use.READ_STREAM, "minOffsetsPerTrigger",
)
MAX_TRIGGER_DELAY: Final = Option[float](
    "maxTriggerDelay", "duration", parse_duration, 900.0, "15m",
    "Longest time between two micro-batches while there are fewer sequences than `minOffsetsPerTrigger`.",
    Use.READ_STREAM, "maxTriggerDelay",
)
POLL_INTERVAL: Final = Option[float](
    "pollInterval", "duration", parse_duration, 1.0, "1s",
    "Longest time between two checks of an idle stream for new messages. The time between two checks is a fifth of the "
    "time since the last message, up to this limit.", Use.READ_STREAM,
    "fetchOffset.retryIntervalMs",
)
INITIAL_SNAPSHOT: Final = Option[bool](
    "initialSnapshot", "true or false", parse_boolean, False, "false",
    "A new query begins with the newest entry of each key of the bucket, and continues with the changes.",
    Use.READ_STREAM,
)
COMMIT_MODE: Final = Option[str](
    "commitMode", "`none`, `consumer` or `purge`", one_of("none", "consumer", "purge"), "none", "`none`",
    "Release of messages after Spark has committed a micro-batch. `none`: nothing is released. `consumer`: the ack "
    "floor of a durable consumer (`commitConsumer`) moves. `purge`: the messages that were read are purged.",
    Use.READ_STREAM, "kafka.enable.auto.commit",
)
COMMIT_CONSUMER: Final = Option[str | None](
    "commitConsumer", "name", lambda text: check_consumer_name(parse_text(text)), None, NONE,
    "Name of the durable consumer for `commitMode` = `consumer`. Each query needs its own. It is created if needed.",
    Use.READ_STREAM, "kafka.group.id",
)
ALLOW_PURGE: Final = Option[bool](
    "allowPurge", "true or false", parse_boolean, False, "false",
    "Allow `commitMode` = `purge` to delete messages of a stream that is not a work queue.", Use.READ_STREAM,
)

DEDUP: Final = Option[str](
    "dedup", "`auto` or `off`", one_of("auto", "off"), "auto", "`auto`",
    "`auto`: every row without a `msg_id` gets a message id. A repeated task gives the same ids, so that the server "
    "drops duplicates within the stream's duplicate window.", Use.WRITE, "kafka.enable.idempotence",
)
MAX_PENDING_ACKS: Final = Option[int](
    "maxPendingAcks", "number", parse_count, 768, "768",
    "Maximum number of messages of a task that the stream has not acknowledged yet.", Use.WRITE,
    "kafka.max.in.flight.requests.per.connection",
)
ACK_TIMEOUT: Final = Option[float](
    "ackTimeout", "duration", parse_duration, 5.0, "5s", "Longest wait for an acknowledgement.", Use.WRITE,
    "kafka.delivery.timeout.ms",
)
EXPECTED_STREAM: Final = Option[str | None](
    "expectedStream", "name", check_stream_name, None, NONE,
    "Name of the stream that must store all rows. A row whose subject belongs to another stream is refused.", Use.WRITE,
)
ON_CONFLICT: Final = Option[str](
    "onConflict", "`fail` or `skip`", one_of("fail", "skip"), "fail", "`fail`",
    "For a bucket. `fail`: the task fails if the newest revision of a row's key is not `expected_revision`. `skip`: "
    "such rows are left out, and the log has their number.", Use.WRITE,
)
CONTROL_HEADERS: Final = Option[str](
    "controlHeaders", "`drop` or `keep`", one_of("drop", "keep"), "drop", "`drop`",
    "`drop`: headers by which a message commands the server are left out, with a warning, since rows that were read "
    "may have them. `keep`: they are published and act on the server.", Use.WRITE,
)
ATOMIC: Final = Option[bool](
    "atomic", "true or false", parse_boolean, False, "false",
    "Publish the rows of a task in atomic batches of 1,000. Each batch is stored as a whole or not at all. The stream "
    "must set `allow_atomic`.", Use.WRITE, "kafka.transactional.id",
)
LEDGER_STREAM: Final = Option[str | None](
    "ledgerStream", "name", check_stream_name, None, NONE,
    "Name of a stream that records the progress of each task. It is created if needed. With it, a repeated micro-batch "
    "stores no row twice, also after the stream's duplicate window.", Use.WRITE_STREAM,
)
LEDGER_RETENTION: Final = Option[float](
    "ledgerRetention", "duration", with_minimum(1.0, parse_duration), 90 * 86400.0, "90d",
    "How long `ledgerStream` keeps a record after it was last written. It must be longer than a query is ever down. "
    "The records of ended queries expire by themselves.", Use.WRITE_STREAM,
)
MAX_REPLAY_DELAY: Final = Option[float](
    "maxReplayDelay", "duration", parse_duration, 3600.0, "1h",
    "Longest time after which a micro-batch may be run again: the longest time that the query is down. A warning is "
    "logged if the duplicate window of a stream is shorter, unless there is a `ledgerStream`.", Use.WRITE_STREAM,
)

OPTIONS: Final[tuple[Option[object], ...]] = (
    SERVERS, USER, PASSWORD, TOKEN, CREDENTIALS, CREDENTIALS_TEXT, NKEY_SEED,
    TLS_CA, TLS_CERT, TLS_KEY, TLS_KEY_PASSWORD, TLS_HOSTNAME, TLS_VERIFY, TLS_FIRST,
    DOMAIN, API_PREFIX, INBOX_PREFIX, CONNECTION_NAME, CONNECT_TIMEOUT, MAX_CONTROL_LINE, REQUEST_TIMEOUT,
    STREAM, SUBJECT, BUCKET, KEYS, HISTORY, INCLUDE_DELETES,
    OBJECTS, PATH_GLOB_FILTER, MAX_PARTITION_BYTES, MAX_OBJECT_SIZE, IGNORE_CORRUPT_FILES, IGNORE_MISSING_FILES,
    READ_MODE,
    STARTING_OFFSETS, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP,
    ENDING_OFFSETS, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP, MIN_PARTITIONS, MAX_RECORDS_PER_PARTITION,
    PUSH_DOWN_PREDICATE, INCLUDE_HEADERS, FAIL_ON_DATA_LOSS,
    ARROW_BATCH_ROWS, ARROW_BATCH_BYTES, MAX_BYTES_IN_FLIGHT, RETRY_TIMEOUT,
    MAX_OFFSETS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER, MAX_TRIGGER_DELAY, POLL_INTERVAL,
    INITIAL_SNAPSHOT, COMMIT_MODE, COMMIT_CONSUMER, ALLOW_PURGE,
    DEDUP, MAX_PENDING_ACKS, ACK_TIMEOUT, EXPECTED_STREAM, ON_CONFLICT,
    CONTROL_HEADERS, ATOMIC,
    LEDGER_STREAM, LEDGER_RETENTION, MAX_REPLAY_DELAY,
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
