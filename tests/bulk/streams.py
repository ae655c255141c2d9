"""Streams for a test, their content, and a scan of a whole range at once."""

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from jetspark import bulk
from jetspark.bulk import Connection, PublishReport, ReadMethod, ScanReport
from jetspark.errors import NotFoundError, RequestTimeoutError
from jetspark.jetstream import RetentionPolicy, StoredMessage, StreamConfig, StreamInfo
from jetspark.jetstream.api import (
    ConsumerNamesRequest,
    MessageDeleteRequest,
    MessageGetRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
)
from jetspark.jetstream.config import StorageType
from jetspark.jetstream.names import API_PREFIX
from jetspark.server import NatsServer

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))

T = TypeVar("T")

_numbers = itertools.count(1)


def create(connection: Connection, config: StreamConfig, prefix: str = API_PREFIX) -> None:
    """Create a stream. For a replicated one repeat the request: servers may vote twice, or not know it yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            connection.request(StreamCreateRequest(config), prefix=prefix, timeout=10)
        except RequestTimeoutError:
            if config.num_replicas in (None, 1) or time.monotonic() > deadline:
                raise
        else:
            return


def until(condition: Callable[[], T], within: float = 30.0) -> T:
    """Ask until the answer is true, for effects that follow the reply of the server; return the last answer."""
    deadline = time.monotonic() + within
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer


def is_wanted(hub: NatsServer, subject: str) -> bool:
    """Return whether the leaf node of the stream's leader has sent its interest in a subject to the hub."""
    leaves = hub.monitor("/leafz", subs="1")["leafs"]
    assert isinstance(leaves, list)
    return any(subject in each.get("subscriptions_list", ()) for each in leaves)


def rows(subject: str, payloads: Sequence[bytes]) -> pa.RecordBatch:
    return pa.record_batch(
        {"subject": pa.repeat(pa.scalar(subject), len(payloads)), "data": pa.array(payloads, pa.binary())}
    )


def sequences(table: pa.Table) -> list[int]:
    values: list[int] = table.column("sequence").to_pylist()
    return values


def read(
    connection: Connection,
    name: str,
    *,
    subjects: Sequence[str] = (),
    start_sequence: int | None = None,
    start_time: datetime | int | None = None,
    end_sequence: int | None = None,
    end_time: datetime | int | None = None,
    columns: Sequence[str] | None = None,
    max_batch_rows: int = 16_384,
    timeout: float = 5.0,
    retry_timeout: float = 30.0,
    prefix: str = API_PREFIX,
    read_method: ReadMethod | str = ReadMethod.AUTO,
) -> tuple[pa.Table, ScanReport]:
    """Scan until the end of the range."""
    with bulk.scan(
        connection,
        name,
        subjects=subjects,
        start_sequence=start_sequence,
        start_time=start_time,
        end_sequence=end_sequence,
        end_time=end_time,
        columns=columns,
        max_batch_rows=max_batch_rows,
        timeout=timeout,
        retry_timeout=retry_timeout,
        prefix=prefix,
        read_method=read_method,
    ) as batches:
        return pa.Table.from_batches(list(batches), batches.schema), batches.report


class Streams:
    """Creates streams with their own name and subjects."""

    def __init__(self, connection: Connection, prefix: str = API_PREFIX) -> None:
        self.connection = connection
        self.prefix = prefix
        self._made: list[str] = []

    def make(
        self, *, retention: RetentionPolicy = RetentionPolicy.LIMITS, storage: StorageType = StorageType.FILE
    ) -> str:
        """Create a stream that takes everything below its name; return the name."""
        return self.make_as(StreamConfig(name=self.new_name(), retention=retention, storage=storage, allow_direct=True))

    def new_name(self) -> str:
        return f"S{next(_numbers)}"

    def make_as(self, config: StreamConfig) -> str:
        if config.subjects is None:
            config.subjects = [f"{config.name}.>"]
        create(self.connection, config, self.prefix)
        self._made.append(config.name)
        return config.name

    def filled(self, count: int, size: int = 8) -> str:
        """Create a stream with messages on the subjects `<name>.0`, `<name>.1`, `<name>.2`, in turn."""
        name = self.make()
        self.fill(name, count, size)
        return name

    def fill(self, name: str, count: int, size: int = 8, first: int = 0) -> PublishReport:
        numbers = range(first, first + count)
        batch = pa.record_batch(
            {
                "subject": pa.array([f"{name}.{number % 3}" for number in numbers]),
                "data": pa.array([b"%0*d" % (size, number) for number in numbers]),
            }
        )
        return bulk.publish(self.connection, batch)

    def info(self, name: str) -> StreamInfo:
        return self.connection.request(StreamInfoRequest(name), prefix=self.prefix)

    def get(self, name: str, sequence: int) -> StoredMessage:
        return self.connection.request(MessageGetRequest(name, sequence=sequence), prefix=self.prefix)

    def stored_ns(self, name: str, sequence: int) -> int:
        """Return when a message was stored, in nanoseconds since 1970."""
        return self.get(name, sequence).timestamp_ns

    def drop(self, name: str, *sequences: int) -> None:
        """Delete messages."""
        for sequence in sequences:
            self.connection.request(MessageDeleteRequest(name, sequence), prefix=self.prefix)

    def purge(self, name: str, *, up_to: int | None = None) -> None:
        """Delete all messages before a sequence, or all messages."""
        self.connection.request(StreamPurgeRequest(name, sequence=up_to), prefix=self.prefix)

    def delete(self, name: str) -> None:
        self.connection.request(StreamDeleteRequest(name), prefix=self.prefix)

    def consumers(self, name: str) -> list[str]:
        return self.connection.request(ConsumerNamesRequest(name), prefix=self.prefix).items

    def no_consumers(self, name: str) -> bool:
        """Return whether the last consumer is removed in time. Nobody waits for the answer to a deletion."""
        return until(lambda: not self.consumers(name), 15.0)

    def delete_all(self) -> None:
        for name in self._made:
            with contextlib.suppress(NotFoundError):  # the test deleted the stream
                self.delete(name)
