"""Queries that report their commits to streams, like in the driver of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.datasource import InputPartition
from tests.jsz import consumers_at
from tests.spark.support import Nats

from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo, RetentionPolicy
from jetspark.jetstream.api import (
    ConsumerCreateRequest,
    ConsumerInfoRequest,
)
from jetspark.server import NatsServer
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema

__all__ = [
    "CONSUMER",
    "INTEREST",
    "PURGE",
    "WORK_QUEUE",
    "await_interest",
    "commit_consumer",
    "ends",
    "kept",
    "read_of",
    "reader",
    "sequences",
    "with_another",
]

WORK_QUEUE: dict[str, Any] = {"retention": RetentionPolicy.WORK_QUEUE, "allow_direct": True}
INTEREST: dict[str, Any] = {"retention": RetentionPolicy.INTEREST, "allow_direct": True}
PURGE = {"commitMode": "purge"}
CONSUMER = {"commitMode": "consumer", "commitConsumer": "spark", "startingOffsets": "earliest"}


def reader(nats: Nats, stream: str, options: Mapping[str, str]) -> JetStreamStreamReader:
    given = {"servers": nats.url, "stream": stream, **options}
    return JetStreamStreamReader(read_schema(include_headers=False), stream_read_options(given))


def ends(made: JetStreamStreamReader, count: int) -> list[dict[str, object]]:
    """Return the start of a query and the ends of its first micro-batches."""
    offsets = [made.initialOffset()]
    for _ in range(count):
        offsets.append(made.latestOffset(offsets[-1], made.getDefaultReadLimit()))
    return offsets


def commit_consumer(nats: Nats, stream: str, name: str = "spark", *, pending: int | None = None) -> ConsumerInfo:
    """Return the info of a commit consumer. It counts pending messages a moment after a message is stored."""
    request = ConsumerInfoRequest(stream, name)
    info, deadline = nats.connection.request(request), time.monotonic() + 20.0
    while pending not in {None, info.num_pending}:
        assert time.monotonic() < deadline, info
        time.sleep(0.01)
        info = nats.connection.request(request)
    return info


def await_interest(servers: Iterable[NatsServer], stream: str, consumer: str = "spark") -> None:
    """Wait until all servers of a stream know a consumer. Before, one may drop messages of an interest stream."""
    deadline = time.monotonic() + 60.0
    for server in servers:
        while consumer not in consumers_at(server, stream):
            assert time.monotonic() < deadline, server
            time.sleep(0.02)


def kept(nats: Nats, stream: str) -> list[object]:
    """Return the sequences that a stream still has."""
    state = nats.info(stream).state
    return [row["sequence"] for row in nats.rows(stream, "sequence")] if state.messages else []


def with_another(nats: Nats, **config: object) -> str:
    """Create an interest stream that has another consumer too."""
    stream = nats.stream(**INTEREST)
    other = ConsumerConfig(durable_name="other", ack_policy=AckPolicy.ALL, **config)  # type: ignore[arg-type]  # by name
    nats.connection.request(ConsumerCreateRequest(stream, other))
    return stream


def read_of(made: JetStreamStreamReader, part: InputPartition) -> list[object]:
    """Return the sequences that a task reads."""
    return [each for batch in made.read(part) for each in batch.column("sequence").to_pylist()]


def sequences(made: JetStreamStreamReader, start: dict[str, object], end: dict[str, object]) -> list[object]:
    return [each for part in made.partitions(start, end) for each in read_of(made, part)]
