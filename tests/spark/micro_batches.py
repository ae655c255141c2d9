"""Micro-batches as Spark's driver asks for them, without Spark."""

from __future__ import annotations

import json

from pyspark.sql.streaming.datasource import ReadLimit
from tests.spark.support import Nats

from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema

__all__ = ["Offset", "latest", "moved", "nexts", "reader", "rows"]

Offset = dict[str, object]


def reader(nats: Nats, *streams: str, **options: str) -> JetStreamStreamReader:
    named = {"stream": ",".join(streams)} if streams else {}
    given = {"servers": nats.url, **named, "startingOffsets": "earliest", **options}
    return JetStreamStreamReader(read_schema(include_headers=False), stream_read_options(given))


def nexts(offset: Offset) -> list[int]:
    """Return the next sequences of an offset, in the order of the streams' names."""
    streams = offset["streams"]
    assert isinstance(streams, dict)
    return [each["next"] for each in streams.values()]


def latest(made: JetStreamStreamReader, start: Offset, limit: ReadLimit | None = None) -> Offset:
    """Return the end of the next micro-batch; start and end pass through JSON, like in Spark."""
    end: Offset = json.loads(json.dumps(made.latestOffset(start, limit or made.getDefaultReadLimit())))
    return end


def rows(made: JetStreamStreamReader, start: Offset, end: Offset) -> list[int]:
    """Return the sequences of a micro-batch."""
    return [
        sequence
        for part in made.partitions(start, end)
        for batch in made.read(part)
        for sequence in batch.column("sequence").to_pylist()
    ]


def moved(offset: Offset, by: int) -> Offset:
    """Return an offset with other sequences, without the time of its last message."""
    streams = offset["streams"]
    assert isinstance(streams, dict)
    changed = {name: {**each, "next": each["next"] + by} for name, each in streams.items()}
    for each in changed.values():
        each.pop("time", None)
    return {"streams": changed, "version": 1}
