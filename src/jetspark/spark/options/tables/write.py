"""Options of writes, batch and streaming."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.names import check_stream_name
from jetspark.spark.options.option import NONE, Option, Use
from jetspark.spark.options.values import (
    one_of,
    parse_boolean,
    parse_count,
    parse_duration,
    with_minimum,
)

__all__ = [
    "ACK_TIMEOUT",
    "ATOMIC",
    "CONTROL_HEADERS",
    "DEDUP",
    "EXPECTED_STREAM",
    "LEDGER_RETENTION",
    "LEDGER_STREAM",
    "MAX_PENDING_ACKS",
    "MAX_REPLAY_DELAY",
    "ON_CONFLICT",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

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
# fmt: on
