"""Helpers for the Spark tests: streams on a real server, and the requests and data of the server."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from tests.bulk.streams import create

from jetspark import bulk
from jetspark.errors import Error
from jetspark.jetstream import StreamConfig, StreamInfo
from jetspark.jetstream.api import StreamDeleteRequest, StreamInfoRequest, StreamPurgeRequest
from jetspark.server import NatsServer
from jetspark.spark import connections

__all__ = ["Nats", "Requests"]

_numbers = itertools.count(1)


class Requests:
    """Records the requests that clients of the account send."""

    def __init__(self, connection: bulk.Connection, other: bulk.Connection) -> None:
        self._connection = connection
        self._other = other

    def count(self) -> int:
        """Return how many requests came since the last count, including all that this process has an answer to."""
        return len(self._come())

    def gaps(self, count: int) -> list[float]:
        """Return the seconds between the next requests."""
        times: list[float] = []
        while len(times) <= count:
            table = self._connection.read(time.monotonic() + 60.0)
            assert table is not None
            times += [time.monotonic()] * len(table)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    def configs(self) -> list[dict[str, object]]:
        """Return the configurations of the requested consumers."""
        return [json.loads(payload)["config"] for payload in self._come()]

    def _come(self) -> list[bytes]:
        """Return the recorded requests. The server delivers a message of our own after all of them."""
        for asked in (self._other, *(each for each, _ in connections._idle.values())):
            with contextlib.suppress(Error):  # it is to another server, which is gone
                asked.request_message("nobody", b"", 30.0)  # a request may be answered before it is delivered to us
        mark = self._connection.new_inbox()
        own = self._connection.subscribe(mark)
        self._connection.publish(mark, b"")
        come: list[bytes] = []
        while True:
            table = self._connection.read(time.monotonic() + 30.0)
            assert table is not None
            for message in map(table.message, range(len(table))):
                if message.subject == mark.encode():
                    self._connection.unsubscribe(own)
                    return come
                come.append(bytes(message.payload))


@dataclass
class Nats:
    """A server and a connection to it."""

    server: NatsServer
    connection: bulk.Connection

    @property
    def url(self) -> str:
        return self.server.url

    def stream(self, name: str | None = None, **config: object) -> str:
        """Create a stream that takes `<name>.>`; return its name. Later names sort after earlier ones."""
        name = name or f"S{next(_numbers):05}"
        fields: dict[str, object] = {"name": name, "subjects": [f"{name}.>"], **config}
        create(self.connection, StreamConfig(**fields))  # type: ignore[arg-type]  # by name
        return name

    def publish(self, subjects: Sequence[str], data: Sequence[bytes] | None = None) -> bulk.PublishReport:
        """Publish a message for each subject; the data is its number by default."""
        data = [b"%d" % number for number in range(len(subjects))] if data is None else data
        return bulk.publish(self.connection, pa.record_batch({"subject": list(subjects), "data": list(data)}))

    def filled(self, count: int, tokens: Sequence[str] = ("a",), **config: object) -> str:
        """Create a stream with messages `<name>.<token>`, the tokens in turn; return its name."""
        name = self.stream(None, **config)
        self.publish([f"{name}.{tokens[number % len(tokens)]}" for number in range(count)])
        return name

    def info(self, stream: str) -> StreamInfo:
        return self.connection.request(StreamInfoRequest(stream))

    def subjects(self, stream: str) -> list[str]:
        """Return the subjects of the messages in a stream."""
        info = self.connection.request(StreamInfoRequest(stream, subjects_filter=">"))
        return sorted(info.state.subjects or {})

    def consumers_left(self, stream: str) -> int:
        """Return the consumers of a stream; deletions without an answer get a moment."""
        deadline = time.monotonic() + 20.0  # below the time after which the server deletes them by itself
        while (count := self.info(stream).state.consumer_count) and time.monotonic() < deadline:
            time.sleep(0.02)
        return count

    def purge(self, stream: str, before: int | None = None) -> None:
        self.connection.request(StreamPurgeRequest(stream, sequence=before))

    def delete(self, stream: str) -> None:
        self.connection.request(StreamDeleteRequest(stream))

    def sent(self) -> int:
        """Return the number of messages that the server has sent to clients so far."""
        sent = self.server.monitor("/varz")["out_msgs"]
        assert isinstance(sent, int)
        return sent

    @contextmanager
    def watched(self, requests: str = "CONSUMER.CREATE.>") -> Iterator[Requests]:
        """Record requests to JetStream; by default those for consumers."""
        with bulk.connect(self.url) as connection:
            connection.subscribe(f"$JS.API.{requests}")
            connection.request(StreamInfoRequest(self.stream()))  # the server has the subscription now
            yield Requests(connection, self.connection)

    def rows(self, stream: str, *columns: str) -> list[dict[str, object]]:
        """Return all messages of a stream, read without Spark."""
        with bulk.scan(self.connection, stream, columns=columns or None) as batches:
            return [row for batch in batches for row in batch.to_pylist()]


@contextmanager
def running(login: Mapping[str, str] | None = None, **settings: object) -> Iterator[Nats]:
    """Start a server with the arguments of `NatsServer`, and connect to it."""
    with (
        NatsServer(**settings) as server,  # type: ignore[arg-type]  # by name
        bulk.connect(server.url, **(login or {})) as connection,  # type: ignore[arg-type]  # by name
    ):
        yield Nats(server, connection)
