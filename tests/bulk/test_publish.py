"""Publishing record batches: every row is stored once, and every answer is counted."""

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.bulk.proxy import LateStream, Proxy
from tests.bulk.streams import HEADERS, Streams, read, rows, sequences, until

from jetspark import bulk
from jetspark.bulk import Connection, PublishRefusedError
from jetspark.errors import (
    BadHeadersError,
    BadSubjectError,
    ConfigError,
    MaxPayloadError,
    MessageSizeExceedsMaximumError,
    NoStreamResponseError,
    PermissionsViolationError,
    PublishTimeoutError,
    StreamStoreFailedError,
    WrongLastSequenceError,
)
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.config import DiscardPolicy
from jetspark.server import NatsCluster, NatsServer


def test_a_hundred_thousand_rows_are_counted(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    streams.fill(name, 3)
    payloads = [b"%d" % number for number in range(100_000)]
    report = bulk.publish(connection, rows(f"{name}.x", payloads))
    assert (report.count, report.duplicates, report.stream) == (100_000, 0, name)
    assert (report.first_sequence, report.last_sequence) == (4, 100_003)
    assert report.bytes > sum(map(len, payloads))
    table, _ = read(connection, name, start_sequence=4, columns=["data", "sequence"])
    assert table.column("data").to_pylist() == payloads
    assert sequences(table) == list(range(4, 100_004))


def test_rows_with_the_same_message_id_are_stored_once(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    ids = [f"id-{number}" for number in range(5000)]
    batch = rows(f"{name}.x", [b"x"] * 5000).append_column("msg_id", pa.array(ids))
    first = bulk.publish(connection, batch)
    assert (first.count, first.duplicates, first.last_sequence) == (5000, 0, 5000)
    again = bulk.publish(connection, batch)
    assert (again.count, again.duplicates) == (5000, 5000)
    assert (again.first_sequence, again.last_sequence) == (None, None)
    more = rows(f"{name}.x", [b"y"] * 2).append_column("msg_id", pa.array(["id-7", None]))
    third = bulk.publish(connection, more)
    assert (third.count, third.duplicates, third.first_sequence, third.last_sequence) == (2, 1, 5001, 5001)
    assert streams.info(name).state.messages == 5001


def test_headers_are_stored_unchanged(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    headers = [[("A", ["1", "2"]), ("a", ["ü"])], None, [], [("Empty", [""])]]
    batch = rows(f"{name}.x", [b"x"] * 4).append_column("headers", pa.array(headers, HEADERS))
    bulk.publish(connection, batch)
    table, _ = read(connection, name)
    assert table.column("headers").to_pylist() == [headers[0], None, None, headers[3]]
    single = rows(f"{name}.x", [b"x"]).append_column(
        "headers", pa.array([[("B", "b")]], pa.map_(pa.string(), pa.string()))
    )
    bulk.publish(connection, single)
    assert read(connection, name, start_sequence=5)[0].column("headers").to_pylist() == [[("B", ["b"])]]


BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXT = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("kind", BYTES + TEXT, ids=str)
def test_data_may_be_text_or_bytes_and_null_is_stored_as_empty(
    connection: Connection, streams: Streams, kind: pa.DataType
) -> None:
    name = streams.make()
    values = ["one", None, "ü"] if kind in TEXT else [b"one", None, "ü".encode()]
    bulk.publish(connection, pa.record_batch({"data": pa.array(values, kind)}), subject=f"{name}.x")
    assert read(connection, name)[0].column("data").to_pylist() == [b"one", b"", "ü".encode()]


def test_one_call_publishes_to_several_streams(connection: Connection, streams: Streams) -> None:
    names = [streams.make() for _ in range(3)]
    subjects = [f"{names[number % 3]}.{number % 7}" for number in range(9000)]
    batch = pa.record_batch(
        {"subject": pa.array(subjects), "data": pa.array([b"%d" % number for number in range(9000)])}
    )
    report = bulk.publish(connection, batch)
    assert (report.count, report.stream, report.first_sequence, report.last_sequence) == (9000, None, None, None)
    for at, name in enumerate(names):
        acks = report.streams[name]
        assert (acks.count, acks.first_sequence, acks.last_sequence) == (3000, 1, 3000)
        data = read(connection, name)[0].column("data").to_pylist()
        assert data == [b"%d" % number for number in range(at, 9000, 3)]


def test_a_subject_for_all_rows_replaces_the_column(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    bulk.publish(connection, rows(f"{name}.ignored", [b"x"] * 3), subject=f"{name}.given")
    assert set(read(connection, name)[0].column("subject").to_pylist()) == {f"{name}.given"}


def test_tables_readers_and_iterables_are_accepted(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    batch = rows(f"{name}.x", [b"a", b"b"])
    table = pa.Table.from_batches([batch, batch])

    def generate() -> Iterator[pa.RecordBatch]:
        yield batch
        yield batch.slice(1)

    for batches, count in ((table, 4), (table.to_reader(), 4), (generate(), 3), ([batch], 2), (batch.slice(1, 1), 1)):
        assert bulk.publish(connection, batches).count == count
    assert streams.info(name).state.messages == 14


def test_publishing_no_rows_does_nothing(connection: Connection) -> None:
    empty = rows("x", [])
    for batches in ([], empty, [empty, empty], pa.Table.from_batches([], empty.schema)):
        report = bulk.publish(connection, batches)
        assert (report.count, report.bytes, report.streams) == (0, 0, {})
        assert (report.stream, report.first_sequence, report.last_sequence, report.duplicates) == (None, None, None, 0)


def test_large_and_empty_rows_are_stored(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    limit = connection.server_info.max_payload
    payloads = [b"", b"x" * limit, b"", b"y" * (limit - 1)] * 3
    assert bulk.publish(connection, rows(f"{name}.x", payloads), max_bytes_in_flight=1 << 20).count == 12
    assert read(connection, name)[0].column("data").to_pylist() == payloads


def test_columns_are_checked(connection: Connection) -> None:
    for batch, wanted in (
        (pa.record_batch({"subject": ["a"]}), "publishing needs a column 'data'; the columns are: subject string"),
        (pa.record_batch({"data": [b"a"]}), "column 'subject', or one subject for all rows"),
        (pa.record_batch({"subject": ["a"], "data": [1]}), "data"),
        (pa.record_batch({"subject": [1], "data": [b"a"]}), "subject"),
        (pa.record_batch({"subject": ["a"], "data": [b"a"], "msg_id": [1]}), "msg_id"),
        (pa.record_batch({"subject": ["a"], "data": [b"a"], "headers": ["A: b"]}), "headers"),
    ):
        with pytest.raises(ConfigError, match=wanted):
            bulk.publish(connection, batch)
    with pytest.raises(ConfigError, match="max_pending must be"):
        bulk.publish(connection, [], max_pending=0)
    with pytest.raises(BadSubjectError):
        bulk.publish(connection, [], subject="a b")


@pytest.mark.parametrize("subject", [None, "", "a b", "a..b", "a.*", "a.>", ".a", "a\r\nPUB x 0", "a\x00"])
def test_an_invalid_subject_names_its_row_and_nothing_of_the_batch_is_sent(
    connection: Connection, streams: Streams, subject: str | None
) -> None:
    name = streams.make()
    good = rows(f"{name}.x", [b"x"] * 10)
    bad = pa.record_batch({"subject": pa.array([f"{name}.x", subject]), "data": pa.array([b"fine", b"culprit"])})
    with pytest.raises(BadSubjectError, match=r"row 11 .*culprit"):
        bulk.publish(connection, [good, bad])
    assert streams.info(name).state.messages == 10


def test_invalid_headers_name_their_row_and_nothing_of_the_batch_is_sent(
    connection: Connection, streams: Streams
) -> None:
    name = streams.make()
    for headers in ([("a b", ["x"])], [("A", ["x\r\ny"])], [("", ["x"])], [("A:", ["x"])]):
        batch = rows(f"{name}.x", [b"fine", b"culprit"]).append_column("headers", pa.array([None, headers], HEADERS))
        with pytest.raises(BadHeadersError, match=r"row 1 .*culprit") as caught:
            bulk.publish(connection, batch)
        assert caught.value.row == 1
    ids = rows(f"{name}.x", [b"fine", b"culprit"]).append_column("msg_id", pa.array(["a", "b\nc"]))
    with pytest.raises(BadHeadersError, match=r"row 1 .*culprit"):
        bulk.publish(connection, ids)
    assert streams.info(name).state.messages == 0


def test_a_row_that_is_too_large_is_named_and_nothing_of_the_batch_is_sent(
    connection: Connection, streams: Streams
) -> None:
    name = streams.make()
    limit = connection.server_info.max_payload
    batch = rows(f"{name}.x", [b"fine", b"culprit" + b"x" * limit])
    with pytest.raises(MaxPayloadError, match=r"row 1 .*culprit") as caught:
        bulk.publish(connection, batch)
    assert (caught.value.size, caught.value.limit) == (limit + 7, limit)
    assert len(str(caught.value)) < 400
    with_id = rows(f"{name}.x", [b"x" * limit]).append_column("msg_id", pa.array(["i"]))
    with pytest.raises(MaxPayloadError, match="row 0"):
        bulk.publish(connection, with_id)
    assert streams.info(name).state.messages == 0


def stored_and_reported(streams: Streams, name: str, error: PublishRefusedError) -> list[bytes]:
    """Return the content of a stream after a refusal, and check that the report agrees."""
    data: list[bytes] = read(streams.connection, name)[0].column("data").to_pylist()
    acks = error.report.streams.get(name)
    assert len(data) == (0 if acks is None else acks.count)
    assert error.report.count == sum(each.count for each in error.report.streams.values())
    return data


def test_a_row_above_the_limit_of_the_stream_is_reported(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=10, allow_direct=True))
    payloads = [b"x"] * 5000 + [b"y" * 11] + [b"x"] * 5000
    with pytest.raises(PublishRefusedError, match=rf"row 5000, subject '{name}\.x': .*10054") as caught:
        bulk.publish(connection, rows(f"{name}.x", payloads))
    error = caught.value
    assert (error.row, error.subject) == (5000, f"{name}.x")
    assert isinstance(error.error, MessageSizeExceedsMaximumError)
    assert error.__cause__ is error.error
    data = stored_and_reported(streams, name, error)
    assert data == [b"x"] * len(data)
    assert 5000 <= len(data) < 10_000


def test_a_row_without_a_stream_is_reported(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    subjects = [f"{name}.a", f"{name}.b", "nobody.listens", f"{name}.c"]
    batch = pa.record_batch({"subject": pa.array(subjects), "data": pa.array([b"0", b"1", b"2", b"3"])})
    with pytest.raises(PublishRefusedError, match=r"row 2, subject 'nobody\.listens': .*503") as caught:
        bulk.publish(connection, batch)
    assert isinstance(caught.value.error, NoStreamResponseError)
    assert stored_and_reported(streams, name, caught.value) == [b"0", b"1", b"3"]


def test_a_stream_that_is_created_a_moment_later_gets_every_row_once(
    connection: Connection, server: NatsServer
) -> None:
    config = StreamConfig(name="LATE", subjects=["late.>"])
    late = LateStream(3000, lambda: Streams(connection).make_as(config))
    with Proxy(server, late) as proxy, bulk.connect(proxy.url) as own:
        late.armed = True
        report = bulk.publish(own, rows("late.x", [b"%d" % number for number in range(3000)]))
        assert (report.count, report.duplicates, report.last_sequence) == (3000, 0, 3000)
        table, _ = read(own, "LATE", columns=["data"])
        assert table.column("data").to_pylist() == [b"%d" % number for number in range(3000)]


def test_a_missing_stream_is_waited_for_half_a_second(connection: Connection) -> None:
    begin = time.monotonic()
    with pytest.raises(PublishRefusedError, match="no stream captures the subject"):
        bulk.publish(connection, rows("never.x", [b"x"] * 3000))
    assert time.monotonic() - begin >= 0.5


def test_the_first_of_several_refused_rows_is_reported(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=10, allow_direct=True))
    subjects = [f"{name}.a", f"{name}.b", "nobody.x", f"{name}.c"] * 20
    payloads = [b"x", b"y" * 20, b"n", b"x"] * 20
    batch = pa.record_batch({"subject": pa.array(subjects), "data": pa.array(payloads)})
    with pytest.raises(PublishRefusedError) as caught:
        bulk.publish(connection, batch)
    assert (caught.value.row, caught.value.subject) == (1, f"{name}.b")
    assert isinstance(caught.value.error, MessageSizeExceedsMaximumError)
    assert stored_and_reported(streams, name, caught.value) == [b"x"] * 40


def test_the_report_is_exact_when_rows_of_several_streams_are_refused(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=10, allow_direct=True))
    other = streams.make()
    subjects = [f"{name}.a", f"{other}.a", f"{name}.b", "nobody.x", f"{name}.c"] * 20
    payloads = [b"x", b"y" * 20, b"z" * 20, b"n", b"x"] * 20
    batch = pa.record_batch({"subject": pa.array(subjects), "data": pa.array(payloads)})
    with pytest.raises(PublishRefusedError) as caught:
        bulk.publish(connection, batch)
    assert isinstance(caught.value.error, MessageSizeExceedsMaximumError | NoStreamResponseError)
    assert stored_and_reported(streams, name, caught.value) == [b"x"] * 40
    assert stored_and_reported(streams, other, caught.value) == [b"y" * 20] * 20


def test_the_row_is_exact_once_several_streams_have_answered(connection: Connection, streams: Streams) -> None:
    count, bad = 12_000, 10_001
    first, second = (
        streams.make_as(StreamConfig(name=name, subjects=[f"{name}.>"], max_msg_size=200))
        for name in (streams.new_name(), streams.new_name())
    )
    subjects = [f"{(first, second)[number // 3 % 2]}.x" for number in range(count)]
    data = [b"x" * (300 if number == bad else 20) for number in range(count)]
    with pytest.raises(PublishRefusedError) as caught:
        bulk.publish(connection, pa.record_batch({"subject": subjects, "data": data}))
    assert (caught.value.row, caught.value.subject) == (bad, subjects[bad])


def test_a_full_stream_is_reported(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(
        StreamConfig(name=streams.new_name(), max_msgs=100, discard=DiscardPolicy.NEW, allow_direct=True)
    )
    with pytest.raises(PublishRefusedError) as caught:
        bulk.publish(connection, rows(f"{name}.x", [b"%d" % number for number in range(500)]))
    assert (caught.value.row, caught.value.subject) == (100, f"{name}.x")
    assert isinstance(caught.value.error, StreamStoreFailedError)
    assert caught.value.error.err_code == 10077
    assert stored_and_reported(streams, name, caught.value) == [b"%d" % number for number in range(100)]
    assert (caught.value.report.first_sequence, caught.value.report.last_sequence) == (1, 100)


def test_a_failed_expectation_is_reported(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    expected = [None, [("Nats-Expected-Last-Sequence", ["1"])], [("Nats-Expected-Last-Sequence", ["77"])], None]
    batch = rows(f"{name}.x", [b"0", b"1", b"2", b"3"]).append_column("headers", pa.array(expected, HEADERS))
    with pytest.raises(PublishRefusedError, match=r"row 2, .*10071") as caught:
        bulk.publish(connection, batch, control_headers="keep")
    assert isinstance(caught.value.error, WrongLastSequenceError)
    assert stored_and_reported(streams, name, caught.value) == [b"0", b"1", b"3"]


def test_a_connection_can_be_used_after_a_refusal(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    with pytest.raises(PublishRefusedError):
        bulk.publish(connection, rows("nobody.listens", [b"x"] * 2000))
    assert bulk.publish(connection, rows(f"{name}.x", [b"x"] * 2000)).count == 2000
    assert read(connection, name)[0].num_rows == 2000


def test_a_forbidden_subject_is_reported() -> None:
    users = [{"user": "u", "password": "p", "permissions": {"publish": {"deny": "x.denied"}, "subscribe": ">"}}]
    config = {"authorization": {"users": users}}
    with NatsServer(config=config) as server, bulk.connect(server.url, user="u", password="p") as own:
        Streams(own).make_as(StreamConfig(name="X", subjects=["x.>"], allow_direct=True))
        with pytest.raises(PermissionsViolationError, match=r"x\.denied") as caught:
            bulk.publish(own, rows("x.denied", [b"x"]))
        assert caught.value.subject == "x.denied"


@pytest.mark.parametrize("most", [1, 2, 10, 100, 3000])
def test_no_more_rows_are_in_flight_than_allowed(server: NatsServer, streams: Streams, most: int) -> None:
    """If a stream never acknowledges, it has at most as many messages as were in flight."""
    name = streams.make_as(StreamConfig(name=streams.new_name(), no_ack=True, allow_direct=True))
    with bulk.connect(server.url) as own:
        with pytest.raises(PublishTimeoutError):
            bulk.publish(own, rows(f"{name}.x", [b"x"] * (2 * most + 10)), max_pending=most, ack_timeout=0.1)
        own.publish(f"{name}.end", b"")  # stored after all earlier messages
        assert until(lambda: read(own, name, subjects=[f"{name}.end"])[0].num_rows)
        assert 0 < read(own, name, subjects=[f"{name}.x"], columns=["sequence"])[0].num_rows <= most


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster() as cluster:
        yield cluster


@pytest.mark.matrix
def test_a_replicated_stream_stores_rows_with_the_same_id_once(cluster: NatsCluster) -> None:
    """The leader refuses an id that is being stored (10158), and a moment later it is a duplicate."""
    with bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        name = streams.make_as(StreamConfig(name="IDS", num_replicas=3, allow_direct=True))
        ids = [str(number // 2) for number in range(200)]
        report = bulk.publish(own, rows(f"{name}.x", [b"x"] * 200).append_column("msg_id", pa.array(ids)))
        assert (report.count, report.duplicates) == (200, 100)
        assert report.resent > 0
        assert read(own, name, columns=["sequence"])[0].num_rows == 100


@pytest.mark.matrix
def test_a_cluster_stores_every_row_in_all_replicas(cluster: NatsCluster) -> None:
    with bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        name = streams.make_as(StreamConfig(name="R3", num_replicas=3, allow_direct=True))
        payloads = [b"%d" % number for number in range(10_000)]
        batch = rows("R3.x", payloads).append_column("msg_id", pa.array([str(number) for number in range(10_000)]))
        report = bulk.publish(own, batch)
        assert (report.count, report.first_sequence, report.last_sequence) == (10_000, 1, 10_000)
        assert bulk.publish(own, batch).duplicates == 10_000
        for read_method in ("consumer", "direct"):
            table, scanned = read(own, name, columns=["data"], read_method=read_method)
            assert table.column("data").to_pylist() == payloads
            assert scanned.missing == 0


def test_concurrent_publishes_share_a_stream(server: NatsServer, streams: Streams) -> None:
    name = streams.make()
    reports: list[bulk.PublishReport] = []

    def write() -> None:
        with bulk.connect(server.url) as own:
            reports.append(bulk.publish(own, rows(f"{name}.x", [b"x"] * 5000)))

    writers = [threading.Thread(target=write) for _ in range(3)]
    began = time.monotonic()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert time.monotonic() - began < 60
    assert [report.count for report in reports] == [5000] * 3
    assert max(report.last_sequence or 0 for report in reports) == 15_000
    assert min(report.first_sequence or 0 for report in reports) == 1
