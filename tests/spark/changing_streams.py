"""Streams that appear and disappear while queries read them, without Spark."""

from __future__ import annotations

import pickle

from tests.spark.micro_batches import Offset
from tests.spark.support import Nats

from jetspark.spark.options.batch import read_options
from jetspark.spark.options.server import ServerOptions
from jetspark.spark.options.stream_pattern import parse_stream_pattern
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.streams import listing

__all__ = ["Clock", "Row", "fill", "numbered", "places", "ranges", "rows"]

Row = tuple[str, int]


class Clock:
    """The clock of the lists: by default it is always time for a new one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 10.0

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


def fill(nats: Nats, name: str, count: int, **config: object) -> str:
    """Create a stream, unless it exists, and publish messages to it."""
    if name not in listing.list_streams(nats.connection, _server(nats), parse_stream_pattern("*")):
        nats.stream(name, **config)
    if count:
        nats.publish([f"{name}.a"] * count)
    return name


def _server(nats: Nats) -> ServerOptions:
    return read_options({"servers": nats.url, "stream": "any"}).server


def places(offset: Offset, prefix: str) -> dict[str, int]:
    """Return the next sequence of each stream, by the end of its name."""
    streams = offset["streams"]
    assert isinstance(streams, dict)
    return {name.removeprefix(prefix): each["next"] for name, each in streams.items()}


def ranges(made: JetStreamStreamReader, start: Offset, end: Offset) -> list[tuple[str, int, int]]:
    found = []
    for part in made.partitions(start, end):
        assert isinstance(part, StreamPartition)
        found.append((part.stream, part.start, part.end))
    return found


def rows(made: JetStreamStreamReader, start: Offset, end: Offset) -> list[Row]:
    """Return stream and sequence of each row of a micro-batch, read as tasks do."""
    task = pickle.loads(pickle.dumps(made))
    return sorted(
        (row["stream"], row["sequence"])
        for part in made.partitions(start, end)
        for batch in task.read(part)
        for row in batch.to_pylist()
    )


def numbered(stream: str, *sequences: int) -> list[Row]:
    return [(stream, sequence) for sequence in sequences]
