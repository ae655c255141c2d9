"""A Spark source and sink over nats-py, written the obvious way: what one would do without this project.

It is sane, not slow on purpose: the range of sequences is split into partitions, each task has one connection, reads
through an ephemeral consumer without acks with large fetches and yields tuples; a writing task takes rows and publishes
them with publish_async, a window of 4,000 and every acknowledgement checked.
"""

import asyncio
from collections.abc import Iterator

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

BATCH = 5_000
WINDOW = 4_000
PARTITIONS = 2


class SequenceRange(InputPartition):
    """Sequences from `first` to `last`, both included."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(None)
        self.first = first
        self.last = last


class NatsPyDataSource(DataSource):
    """Options: `url`, `stream`, `count` (messages to read from the stream's start)."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "nats_py"

    def schema(self) -> str:
        """The columns of a read."""
        return "subject string, data binary, sequence bigint, timestamp timestamp"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Read the first messages of the stream."""
        return Reader(self.options["url"], self.options["stream"], int(self.options["count"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Publish rows of subject and data."""
        return Writer(self.options["url"])


class Reader(DataSourceReader):
    """Ranges of sequences, read as tuples."""

    def __init__(self, url: str, stream: str, count: int) -> None:
        self.url = url
        self.stream = stream
        self.count = count

    def partitions(self) -> list[InputPartition]:
        """As many ranges as there are cores."""
        size = -(-self.count // PARTITIONS)
        return [SequenceRange(at + 1, min(at + size, self.count)) for at in range(0, self.count, size)]

    def read(self, partition: SequenceRange) -> Iterator[tuple[object, ...]]:
        """Fetch after fetch until the range's end."""
        with asyncio.Runner() as runner:
            connection = runner.run(nats.connect(self.url))
            config = ConsumerConfig(
                ack_policy=AckPolicy.NONE,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=partition.first,
                mem_storage=True,
                inactive_threshold=60,
            )
            subscribed = connection.jetstream().pull_subscribe("", stream=self.stream, config=config)
            subscription = runner.run(subscribed)
            sequence = partition.first - 1
            while sequence < partition.last:
                wanted = min(BATCH, partition.last - sequence)
                for message in runner.run(subscription.fetch(wanted, timeout=30)):
                    metadata = message.metadata
                    sequence = metadata.sequence.stream
                    yield message.subject, message.data, sequence, metadata.timestamp
            runner.run(connection.close())


class Writer(DataSourceWriter):
    """Publishes each row and waits for the acknowledgements."""

    def __init__(self, url: str) -> None:
        self.url = url

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish a task's rows."""
        asyncio.run(self._publish(iterator))
        return WriterCommitMessage()

    async def _publish(self, rows: Iterator[Row]) -> None:
        connection = await nats.connect(self.url)
        stream = connection.jetstream(publish_async_max_pending=WINDOW)
        acks = [await stream.publish_async(row.subject, bytes(row.data)) for row in rows]
        await stream.publish_async_completed()
        for ack in acks:
            ack.result()
        await connection.close()
