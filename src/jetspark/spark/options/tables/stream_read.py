"""Options of streaming reads: the size of a micro-batch, and the release of messages after a commit."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.names import check_consumer_name
from jetspark.spark.options.option import NONE, Option, Use
from jetspark.spark.options.values import (
    one_of,
    parse_boolean,
    parse_count,
    parse_duration,
    parse_size,
    parse_text,
)

__all__ = [
    "ALLOW_PURGE",
    "ALLOW_REMOVED_STREAMS",
    "COMMIT_CONSUMER",
    "COMMIT_MODE",
    "INITIAL_SNAPSHOT",
    "MAX_BYTES_PER_TRIGGER",
    "MAX_OFFSETS_PER_TRIGGER",
    "MAX_TRIGGER_DELAY",
    "MIN_OFFSETS_PER_TRIGGER",
    "POLL_INTERVAL",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

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
ALLOW_REMOVED_STREAMS: Final = Option[bool](
    "allowRemovedStreams", "true or false", parse_boolean, False, "false",
    "Continue without a stream of the checkpoint that the options leave out, or that was deleted. Its position is "
    "dropped.", Use.READ_STREAM,
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
# fmt: on
