"""The last message of every subject: complete, and exactly one moment of the stream while others write."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from tests.bulk.proxy import NthOf, Proxy, cut_after, drop_frame
from tests.bulk.streams import HEADERS, Streams, read, rows

from jetspark import bulk
from jetspark.bulk import Connection, Snapshot
from jetspark.bulk.columns import COLUMNS
from jetspark.engine.ranges import InterruptedReadError
from jetspark.errors import BadSubjectError, ConfigError, StreamNotFoundError
from jetspark.jetstream import RetentionPolicy, StreamConfig
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.server import NatsServer

WAYS = pytest.mark.parametrize("read_method", ["consumer", "direct"])


def kept(streams: Streams, **config: object) -> str:
    return streams.make_as(StreamConfig(name=streams.new_name(), allow_direct=True, **config))  # type: ignore[arg-type]  # by name


def fill(connection: Connection, name: str, count: int, rounds: int = 1) -> None:
    for turn in range(rounds):
        batch = {"subject": [f"{name}.{number}" for number in range(count)], "data": [b"%d" % turn] * count}
        bulk.publish(connection, pa.record_batch(batch))


def values(snapshot: Snapshot) -> dict[str, bytes]:
    table = snapshot.table
    assert len(set(table.column("subject").to_pylist())) == len(table)
    return dict(zip(table.column("subject").to_pylist(), table.column("data").to_pylist(), strict=True))


@WAYS
def test_each_subject_has_one_row_in_the_order_of_the_stream(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = kept(streams)
    fill(connection, name, 10, rounds=3)
    bulk.publish(connection, rows(f"{name}.4", [b"newest"]))
    snapshot = bulk.last_per_subject(connection, name, read_method=read_method)
    assert snapshot.table.schema == pa.schema(list(COLUMNS.items()))
    assert snapshot.table.column("sequence").to_pylist() == [21, 22, 23, 24, 26, 27, 28, 29, 30, 31]
    assert values(snapshot) == {f"{name}.{number}": b"newest" if number == 4 else b"2" for number in range(10)}
    assert (snapshot.sequence, snapshot.created) == (31, streams.info(name).created)
    assert streams.no_consumers(name)


@WAYS
def test_only_the_requested_columns_and_subjects_are_returned(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = kept(streams)
    fill(connection, name, 10, rounds=2)
    subjects = [f"{name}.1", f"{name}.2", f"{name}.none"]
    snapshot = bulk.last_per_subject(
        connection, name, subjects=subjects, columns=["data", "subject"], read_method=read_method
    )
    assert snapshot.table.to_pylist() == [
        {"data": b"1", "subject": f"{name}.1"},
        {"data": b"1", "subject": f"{name}.2"},
    ]
    nothing = bulk.last_per_subject(connection, name, subjects=["other"], columns=["data"], read_method=read_method)
    assert (nothing.table.num_rows, nothing.table.column_names, nothing.sequence) == (0, ["data"], 20)


@WAYS
def test_an_empty_stream_gives_no_rows(connection: Connection, streams: Streams, read_method: str) -> None:
    name = kept(streams)
    assert bulk.last_per_subject(connection, name, read_method=read_method).table.num_rows == 0
    fill(connection, name, 3)
    streams.purge(name)
    assert bulk.last_per_subject(connection, name, read_method=read_method).table.num_rows == 0


@pytest.mark.conformance("DIR-08", "DIR-09")
@WAYS
def test_more_subjects_than_fit_a_request_are_all_read(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = kept(streams)
    fill(connection, name, 3000, rounds=2)
    snapshot = bulk.last_per_subject(connection, name, read_method=read_method, max_bytes_in_flight=50_000)
    assert values(snapshot) == {f"{name}.{number}": b"1" for number in range(3000)}
    assert snapshot.sequence == 6000


def test_a_deleted_key_is_a_marker_and_a_purged_subject_has_no_row(connection: Connection, streams: Streams) -> None:
    name = kept(streams, max_msgs_per_subject=1)
    fill(connection, name, 5)
    marker = pa.array([[("KV-Operation", ["DEL"])]], HEADERS)
    bulk.publish(connection, rows(f"{name}.1", [b""]).append_column("headers", marker))
    connection.request(StreamPurgeRequest(name, filter=f"{name}.2"))
    table = bulk.last_per_subject(connection, name, columns=["subject", "headers"]).table
    assert table.to_pylist() == [
        {"subject": f"{name}.0", "headers": None},
        {"subject": f"{name}.3", "headers": None},
        {"subject": f"{name}.4", "headers": None},
        {"subject": f"{name}.1", "headers": [("KV-Operation", ["DEL"])]},
    ]


class Writer:
    """Writes random keys and remembers the content of the stream at each sequence."""

    def __init__(self, server: NatsServer, name: str, keys: int) -> None:
        self.log: list[tuple[str, bytes]] = []
        self.written = threading.Event()
        self._name = name
        self._keys = keys
        self._over = threading.Event()
        self._server = server
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        chance = random.Random(1)
        with bulk.connect(self._server.url) as own:
            while not self._over.is_set():
                some = [f"{self._name}.{chance.randrange(self._keys)}" for _ in range(50)]
                data = [b"%d" % (len(self.log) + at) for at in range(50)]
                bulk.publish(own, pa.record_batch({"subject": some, "data": data}))
                self.log += zip(some, data, strict=True)
                self.written.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._thread.start()
        assert self.written.wait(10)
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def state(self, sequence: int) -> dict[str, bytes]:
        return dict(self.log[:sequence])


@pytest.mark.conformance("DIR-09")
@pytest.mark.parametrize(
    ("read_method", "per_subject"), [("consumer", None), ("consumer", 1), ("consumer", 3), ("direct", None)]
)
def test_the_result_is_one_moment_of_the_stream_while_others_write(
    server: NatsServer, streams: Streams, read_method: str, per_subject: int | None
) -> None:
    name = kept(streams, max_msgs_per_subject=per_subject)
    writer = Writer(server, name, 3000)
    with bulk.connect(server.url) as own, writer.writing():
        taken: list[Snapshot] = []
        enough = time.monotonic() + 20
        # The writer may be slow; then there are more of them.
        while len(taken) < 8 or (taken[0].sequence == taken[-1].sequence and time.monotonic() < enough):
            taken.append(bulk.last_per_subject(own, name, read_method=read_method))
    assert taken[0].sequence < taken[-1].sequence
    for snapshot in taken:
        assert values(snapshot) == writer.state(snapshot.sequence)


def test_a_direct_get_without_a_consistent_moment_fails(server: NatsServer, streams: Streams) -> None:
    name = kept(streams, max_msgs_per_subject=1)
    writer = Writer(server, name, 3000)
    taken: list[Snapshot] = []
    said: list[str] = []
    with bulk.connect(server.url) as own, writer.writing():
        enough = time.monotonic() + 20
        while len(taken) + len(said) < 10 or (not said and time.monotonic() < enough):
            try:
                taken.append(bulk.last_per_subject(own, name, read_method="direct", retry_timeout=0))
            except InterruptedReadError as error:
                said.append(str(error))
    assert said
    assert all("has replaced the last message of subject" in each for each in said)
    for snapshot in taken:
        assert values(snapshot) == writer.state(snapshot.sequence)


def test_direct_get_is_used_where_a_consumer_would_be_refused(connection: Connection, streams: Streams) -> None:
    name = kept(streams, retention=RetentionPolicy.WORK_QUEUE)
    fill(connection, name, 5, rounds=2)
    assert values(bulk.last_per_subject(connection, name)) == {f"{name}.{number}": b"1" for number in range(5)}
    assert streams.info(name).state.messages == 10
    assert streams.consumers(name) == []


def test_an_unreadable_stream_is_reported(connection: Connection, streams: Streams) -> None:
    closed = streams.make_as(
        StreamConfig(name=streams.new_name(), retention=RetentionPolicy.INTEREST, allow_direct=False)
    )
    with pytest.raises(ConfigError, match="allow_direct"):
        bulk.last_per_subject(connection, closed)
    with pytest.raises(StreamNotFoundError):
        bulk.last_per_subject(connection, "NOBODY")
    with pytest.raises(BadSubjectError):
        bulk.last_per_subject(connection, closed, subjects=["a b"])


@WAYS
@pytest.mark.parametrize("cut", [2000, 20_000, 120_000])
def test_a_lost_connection_is_opened_again(server: NatsServer, streams: Streams, read_method: str, cut: int) -> None:
    name = kept(streams)
    fill(streams.connection, name, 3000)
    with Proxy(server, cut_after(cut)) as proxy, bulk.connect(proxy.url) as own:
        snapshot = bulk.last_per_subject(own, name, read_method=read_method)
        assert proxy.connections == 2
    assert values(snapshot) == {f"{name}.{number}": b"0" for number in range(3000)}


@WAYS
def test_a_lost_message_is_noticed(server: NatsServer, streams: Streams, read_method: str) -> None:
    name = kept(streams)
    fill(streams.connection, name, 3000)
    which = NthOf(8, len(b"0"))
    with Proxy(server, drop_frame(which)) as proxy, bulk.connect(proxy.url) as own:
        assert len(values(bulk.last_per_subject(own, name, read_method=read_method))) == 3000
    assert which.left == 0  # it was dropped


def test_the_result_agrees_with_a_scan(connection: Connection, streams: Streams) -> None:
    name = streams.filled(1000)
    table, _ = read(connection, name)
    last = {row["subject"]: row for row in table.to_pylist()}
    assert bulk.last_per_subject(connection, name).table.to_pylist() == sorted(
        last.values(), key=lambda row: int(row["sequence"])
    )
