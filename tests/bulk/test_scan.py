"""A scan returns the content of the stream: every column, in order, within the given limits."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.bulk.streams import HEADERS, Streams, read, rows, sequences

from jetspark import bulk
from jetspark.bulk import Connection, ReadMethod
from jetspark.bulk.columns import COLUMNS
from jetspark.errors import BadNameError, BadSubjectError, ConfigError, StreamNotFoundError, WorkQueueConsumerError
from jetspark.jetstream import RetentionPolicy
from jetspark.server import NatsServer

BY = pytest.mark.parametrize("read_method", ["consumer", "direct"])


@BY
def test_a_scan_equals_the_content_of_the_server(connection: Connection, streams: Streams, read_method: str) -> None:
    name = streams.make()
    subjects = [f"{name}.a", f"{name}.b.c", f"{name}.ä", f"{name}.a", f"{name}.$x"]
    payloads = [b"one", b"", "zwei ü".encode(), b"\r\nMSG a 1 2\r\nxx\r\n", bytes(range(256))]
    headers = [
        None,
        [("Key", ["1", "2", "1"]), ("key", ["lower"]), ("Empty", [""])],
        None,
        [("Value", ["ä ö", "日本"])],
        [("Nats-Stream", ["OTHER"]), ("Nats-Sequence", ["9"]), ("A", ["b"])],
    ]
    batch = pa.record_batch(
        {"subject": subjects, "data": pa.array(payloads, pa.binary()), "headers": pa.array(headers, HEADERS)}
    )
    bulk.publish(streams.connection, batch)
    table, report = read(connection, name, read_method=read_method)
    assert table.schema == pa.schema(list(COLUMNS.items()))
    assert table.column("subject").to_pylist() == subjects
    assert table.column("data").to_pylist() == payloads
    assert table.column("stream").to_pylist() == [name] * 5
    assert sequences(table) == [1, 2, 3, 4, 5]
    for number, row in enumerate(table.column("headers").to_pylist(), 1):
        stored = streams.get(name, number)
        assert (None if row is None else dict(row)) == (stored.headers.to_dict() or None)
        assert stored.subject == subjects[number - 1]
        assert stored.payload == payloads[number - 1]
        ns = table.column("timestamp_ns")[number - 1].as_py()
        assert ns == streams.stored_ns(name, number)
        assert table.column("timestamp")[number - 1].value == ns // 1000
    assert (report.expected, report.received, report.missing, report.complete) == (5, 5, 0, True)
    assert (report.first_sequence, report.last_sequence) == (1, 5)
    assert (report.start_sequence, report.end_sequence) == (1, 6)
    assert (report.stream_first_sequence, report.stream_last_sequence) == (1, 5)
    assert (report.restarts, report.read_method) == (0, ReadMethod(read_method))
    assert report.bytes > sum(map(len, payloads))
    assert report.created == streams.info(name).created


def test_headers_that_are_not_utf8_are_still_read(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    block = b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n"
    frame = b"HPUB %s.x %d %d\r\n%s\r\n" % (name.encode(), len(block), len(block), block)
    connection.send(frame, time.monotonic() + 5)
    bulk.publish(connection, rows(f"{name}.y", [b""]))
    for read_method in ("consumer", "direct"):
        table, _ = read(connection, name, read_method=read_method)
        assert table.column("headers").to_pylist() == [[("A", ["��"])], None]


def test_a_scan_has_the_requested_columns_in_the_requested_order(connection: Connection, streams: Streams) -> None:
    name = streams.filled(10)
    for read_method in ("consumer", "direct"):
        table, _ = read(connection, name, columns=["sequence", "subject"], read_method=read_method)
        assert table.column_names == ["sequence", "subject"]
        assert sequences(table) == list(range(1, 11))


@BY
def test_filters_select_subjects(connection: Connection, streams: Streams, read_method: str) -> None:
    name = streams.filled(30)
    one, report = read(connection, name, subjects=[f"{name}.1"], read_method=read_method)
    assert sequences(one) == list(range(2, 31, 3))
    assert (report.expected, report.received, report.missing) == (10, 10, 0)
    two, report = read(connection, name, subjects=[f"{name}.0", f"{name}.2"], read_method=read_method)
    assert sequences(two) == [number for number in range(1, 31) if number % 3 != 2]
    assert (report.expected, report.received) == (20, 20)
    every, report = read(connection, name, subjects=[f"{name}.*"], read_method=read_method)
    assert (sequences(every), report.expected) == (list(range(1, 31)), 30)
    every, _ = read(connection, name, subjects=[f"{name}.>"], start_sequence=29, read_method=read_method)
    assert sequences(every) == [29, 30]
    none, report = read(connection, name, subjects=[f"{name}.none"], read_method=read_method)
    assert (none.num_rows, report.expected, report.complete) == (0, 0, True)
    part, report = read(
        connection, name, subjects=[f"{name}.1"], start_sequence=3, end_sequence=11, read_method=read_method
    )
    assert (sequences(part), report.expected) == ([5, 8], 2)


@BY
@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (None, None, range(3, 9)),
        (5, 7, range(5, 7)),
        (0, 100, range(3, 9)),
        (8, 9, range(8, 9)),
        (8, None, range(8, 9)),
        (5, 5, ()),
        (7, 5, ()),
        (1, 2, ()),
        (1, 3, ()),
        (1, 4, range(3, 4)),
        (9, None, ()),
        (50, 60, ()),
    ],
)
def test_a_range_by_sequence_is_exact(
    connection: Connection,
    eight: str,
    read_method: str,
    start: int | None,
    end: int | None,
    wanted: range,
) -> None:
    table, report = read(connection, eight, start_sequence=start, end_sequence=end, read_method=read_method)
    assert sequences(table) == list(wanted)
    assert (report.expected, report.received, report.missing, report.complete) == (len(wanted), len(wanted), 0, True)
    assert report.first_sequence == (wanted[0] if wanted else None)


@pytest.fixture(scope="module")
def eight(server: NatsServer) -> str:
    """A stream with the sequences 3 to 8."""
    with bulk.connect(server.url) as connected:
        streams = Streams(connected)
        name = streams.filled(8)
        streams.purge(name, up_to=3)
        return name


@BY
def test_a_range_by_time_is_exact_to_the_nanosecond(connection: Connection, streams: Streams, read_method: str) -> None:
    name = streams.make()
    for number in range(6):
        streams.fill(name, 1, first=number)
    times = [streams.stored_ns(name, sequence) for sequence in range(1, 7)]
    assert times == sorted(set(times))

    def between(start: datetime | int | None, end: datetime | int | None) -> list[int]:
        return sequences(read(connection, name, start_time=start, end_time=end, read_method=read_method)[0])

    assert between(times[2], None) == [3, 4, 5, 6]
    assert between(times[2] + 1, None) == [4, 5, 6]
    assert between(None, times[2]) == [1, 2]
    assert between(None, times[2] + 1) == [1, 2, 3]
    assert between(times[1], times[4]) == [2, 3, 4]
    assert between(times[1], times[1]) == []
    assert between(times[5] + 1, None) == []
    assert between(0, times[0]) == []
    assert between(0, None) == [1, 2, 3, 4, 5, 6]
    assert between(-1, 1 << 63) == [1, 2, 3, 4, 5, 6]
    assert between(1 << 63, None) == []
    moment = streams.get(name, 4).timestamp
    assert between(moment, None) == [4, 5, 6]
    plain = datetime.fromtimestamp(moment.timestamp(), UTC).replace(microsecond=moment.microsecond)
    assert between(plain, None)[-1] == 6
    assert between(datetime.now(UTC) + timedelta(days=1), None) == []
    assert between(None, datetime.now(UTC) + timedelta(days=1)) == [1, 2, 3, 4, 5, 6]
    streams.drop(name, 3)
    assert between(times[2], None) == [4, 5, 6]
    assert between(None, times[3]) == [1, 2]
    assert bulk.first_sequence_at(connection, name, times[5] + 1, read_method=read_method) == 7


def test_a_scan_until_now_does_not_wait_for_later_messages(
    server: NatsServer, connection: Connection, streams: Streams
) -> None:
    name = streams.filled(2000)
    stop = threading.Event()
    written = threading.Event()

    def write() -> None:
        with bulk.connect(server.url) as own:
            while not stop.is_set():
                bulk.publish(own, rows(f"{name}.more", [b"x"] * 100))
                written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        written.wait(10)
        for read_method in ("consumer", "direct"):
            for _ in range(5):
                table, report = read(connection, name, read_method=read_method)
                assert sequences(table) == list(range(1, report.end_sequence))
                assert report.received == report.stream_last_sequence
                assert (report.missing, report.complete) == (0, True)
    finally:
        stop.set()
        writer.join()


def test_a_scan_of_an_empty_stream_gives_no_rows(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    for read_method in ("consumer", "direct"):
        for start in (None, 5):
            table, report = read(connection, name, start_sequence=start, read_method=read_method)
            assert (table.num_rows, report.expected, report.missing, report.complete) == (0, 0, 0, True)
            assert (report.first_sequence, report.last_sequence) == (None, None)


def test_large_and_empty_payloads_are_read_completely(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    limit = connection.server_info.max_payload
    payloads = [b"", b"a" * limit, b"", b"\r\n" * (limit // 2), b"z" * (limit - 1), b""]
    bulk.publish(streams.connection, rows(f"{name}.big", payloads))
    for read_method in ("consumer", "direct"):
        table, report = read(connection, name, read_method=read_method)
        assert table.column("data").to_pylist() == payloads
        assert report.restarts == 0


@BY
def test_record_batches_stay_within_rows_and_bytes(connection: Connection, streams: Streams, read_method: str) -> None:
    name = streams.filled(5000, size=100)
    with bulk.scan(connection, name, max_batch_rows=300, read_method=read_method) as batches:
        sizes = [len(batch) for batch in batches]
    assert (sum(sizes), max(sizes)) == (5000, 300)
    with bulk.scan(connection, name, max_batch_bytes=10_000, read_method=read_method) as batches:
        got = list(batches)
    assert sum(map(len, got)) == 5000
    assert max(len(batch) for batch in got) * 100 <= 10_000
    with bulk.scan(
        connection, name, max_batch_bytes=1, max_bytes_in_flight=1, end_sequence=51, read_method=read_method
    ) as one:
        assert [len(batch) for batch in one] == [1] * 50


@BY
def test_the_receive_buffer_does_not_grow_with_the_stream(
    server: NatsServer, streams: Streams, read_method: str
) -> None:
    name = streams.filled(40_000, size=1000)
    with bulk.connect(server.url) as own:
        table, report = read(own, name, columns=["sequence"], read_method=read_method)
        assert (table.num_rows, report.restarts) == (40_000, 0)
        assert len(own._received) <= 2 << 20


def test_messages_may_suddenly_become_a_thousand_times_larger(server: NatsServer, streams: Streams) -> None:
    name = streams.filled(20_000, size=10)
    streams.fill(name, 4000, size=10_000, first=20_000)
    for read_method in ("consumer", "direct"):
        with bulk.connect(server.url) as own:
            with bulk.scan(
                own, name, columns=["sequence"], max_bytes_in_flight=1 << 20, read_method=read_method
            ) as batches:
                got = sequences(pa.Table.from_batches(list(batches)))
            assert got == list(range(1, 24_001))
            assert len(own._received) <= 4 << 20


def test_a_scan_can_be_read_by_a_record_batch_reader(connection: Connection, streams: Streams) -> None:
    name = streams.filled(100)
    with bulk.scan(connection, name, columns=["sequence"], max_batch_rows=7) as batches:
        first = next(batches)
        rest = batches.to_reader().read_all()
    assert sequences(first) + sequences(rest) == list(range(1, 101))


def test_several_scans_and_publishes_share_one_connection(connection: Connection, streams: Streams) -> None:
    name = streams.filled(20_000, size=200)
    for read_method in ("consumer", "direct", "consumer"):
        with bulk.scan(connection, name, read_method=read_method) as early:
            next(early)
        report = bulk.publish(connection, rows(f"{name}.x", [b"x"] * 10))
        assert report.count == 10
        table, _ = read(connection, name, columns=["sequence"])
        assert sequences(table) == list(range(1, streams.info(name).state.last_sequence + 1))


def test_a_scan_that_is_closed_early_leaves_no_consumer(connection: Connection, streams: Streams) -> None:
    name = streams.filled(50_000, size=100)
    with bulk.scan(connection, name) as batches:
        next(batches)
        assert len(streams.consumers(name)) == 1
    assert streams.no_consumers(name)
    with pytest.raises(ZeroDivisionError), bulk.scan(connection, name) as batches:
        print(next(batches).num_rows // 0)
    assert streams.no_consumers(name)
    read(connection, name, columns=["sequence"])
    read(connection, name, start_time=0, end_time=10**18, columns=["sequence"])
    assert streams.no_consumers(name)


def test_invalid_options_are_refused_at_once(connection: Connection) -> None:
    with pytest.raises(ConfigError, match="start_sequence or start_time"):
        bulk.scan(connection, "S", start_sequence=1, start_time=1)
    with pytest.raises(ConfigError, match="end_sequence or end_time"):
        bulk.scan(connection, "S", end_sequence=1, end_time=1)
    for option in ("max_batch_rows", "max_batch_bytes", "max_bytes_in_flight"):
        with pytest.raises(ConfigError, match=f"{option} must be positive, not 0"):
            bulk.scan(
                connection,
                "S",
                max_batch_rows=0 if option == "max_batch_rows" else 1,
                max_batch_bytes=0 if option == "max_batch_bytes" else 1,
                max_bytes_in_flight=0 if option == "max_bytes_in_flight" else 1,
            )
    with pytest.raises(
        ConfigError, match=r"no column time to read; did you mean timestamp[?] The columns are: subject, data, headers"
    ):
        bulk.scan(connection, "S", columns=["time"])
    with pytest.raises(ConfigError, match="columns is empty"):
        bulk.scan(connection, "S", columns=[])
    with pytest.raises(ConfigError, match="read_method must be one of auto, consumer, direct, not 'magic'"):
        bulk.scan(connection, "S", read_method="magic")
    with pytest.raises(BadNameError):
        bulk.scan(connection, "a.b")
    with pytest.raises(BadSubjectError):
        bulk.scan(connection, "S", subjects=["a..b"])


def test_a_missing_stream_is_reported_with_its_name_and_code(connection: Connection) -> None:
    with pytest.raises(StreamNotFoundError, match="NOPE") as caught:
        read(connection, "NOPE")
    assert caught.value.err_code == 10059


def test_the_server_refuses_a_consumer_on_a_work_queue(connection: Connection, streams: Streams) -> None:
    name = streams.make(retention=RetentionPolicy.WORK_QUEUE)
    streams.fill(name, 3)
    with pytest.raises(WorkQueueConsumerError, match="10084"):
        read(connection, name, read_method="consumer")
    assert streams.no_consumers(name)
