"""Streams on which another consumer is refused, or changes what is kept, are read by direct get."""

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy
from tests.bulk.streams import HEADERS, Streams, read, rows, sequences, until

from jetspark import bulk
from jetspark.bulk import Connection, ReadMethod
from jetspark.bulk.columns import COLUMNS
from jetspark.bulk.direct_get_replies import read_replies
from jetspark.engine.ranges import InterruptedReadError
from jetspark.errors import ConfigError, ConsumerConfigError, DirectGetRequestError, InvalidReplyError
from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo, RetentionPolicy, StreamConfig
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerInfoRequest, PullRequest
from jetspark.jetstream.direct_get import DirectBatchEnd
from jetspark.server import NatsServer
from jetspark.wire import headers as header_block
from jetspark.wire.vector import FrameTable, decode

RETAINED = pytest.mark.parametrize("retention", [RetentionPolicy.WORK_QUEUE, RetentionPolicy.INTEREST])


def retained(streams: Streams, retention: RetentionPolicy, count: int) -> str:
    """A stream with a worker that has not taken a message yet."""
    name = streams.make(retention=retention)
    worker = ConsumerConfig(name="worker", durable_name="worker", ack_policy=AckPolicy.EXPLICIT)
    streams.connection.request(ConsumerCreateRequest(name, worker))
    streams.fill(name, count, size=100)
    return name


@RETAINED
def test_messages_of_a_work_queue_are_read_and_left_unchanged(
    connection: Connection, streams: Streams, retention: RetentionPolicy
) -> None:
    name = retained(streams, retention, 5000)
    table, report = read(connection, name)
    assert table.schema == pa.schema(list(COLUMNS.items()))
    assert sequences(table) == list(range(1, 5001))
    assert (report.read_method, report.expected, report.missing, report.complete) == (ReadMethod.DIRECT, 5000, 0, True)
    assert streams.consumers(name) == ["worker"]
    assert streams.info(name).state.messages == 5000

    def worker() -> ConsumerInfo:
        return connection.request(ConsumerInfoRequest(name, "worker"))

    assert until(lambda: worker().num_pending >= 5000)  # a consumer counts a moment after the stream
    assert (worker().num_pending, worker().num_ack_pending) == (5000, 0)
    assert bulk.first_sequence_at(connection, name, streams.stored_ns(name, 4000)) == 4000


@RETAINED
def test_messages_that_a_worker_acknowledged_are_not_read(
    connection: Connection, streams: Streams, retention: RetentionPolicy
) -> None:
    name = retained(streams, retention, 10)
    inbox = connection.new_inbox()
    sid = connection.subscribe(inbox)
    pull = PullRequest(name, "worker", batch=4)
    connection.publish(pull.subject(), pull.payload(), reply=inbox)
    done = 0
    while done < 4:
        table = connection.read(float(10**9))
        assert table is not None
        for row in range(len(table)):
            reply = table.message(row).reply
            assert reply is not None
            connection.publish(reply.decode(), b"+ACK")
            done += 1
    connection.unsubscribe(sid)
    assert until(lambda: streams.info(name).state.messages <= 6)
    table, report = read(connection, name)
    assert sequences(table) == [5, 6, 7, 8, 9, 10]
    assert (report.expected, report.missing, report.stream_first_sequence) == (6, 0, 5)


@RETAINED
def test_the_error_of_a_stream_without_direct_get_says_how_to_enable_it(
    connection: Connection, streams: Streams, retention: RetentionPolicy
) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), retention=retention, allow_direct=False))
    with pytest.raises(ConfigError, match=rf"{retention.value}.*nats stream edit {name} --allow-direct"):
        read(connection, name)


def test_a_limits_stream_is_read_by_a_consumer_unless_asked_otherwise(connection: Connection, streams: Streams) -> None:
    name = streams.filled(10)
    assert read(connection, name)[1].read_method is ReadMethod.CONSUMER
    assert read(connection, name, read_method=ReadMethod.DIRECT)[1].read_method is ReadMethod.DIRECT
    indirect = streams.make_as(StreamConfig(name=streams.new_name(), allow_direct=False))
    with pytest.raises(ConfigError, match="allow_direct"):
        read(connection, indirect, read_method="direct")


@pytest.mark.parametrize(
    ("one", "other"), [("a.*", "a.b"), ("a.>", "a.b.c"), (">", "a"), ("a.>", "a.*"), ("a.b", "a.b")]
)
def test_overlapping_filters_are_refused_by_both_methods(
    connection: Connection, streams: Streams, one: str, other: str
) -> None:
    name = streams.filled(1)
    subjects = [f"{name}.{one}", f"{name}.{other}"]
    with pytest.raises(ConfigError, match="overlap"):
        read(connection, name, subjects=subjects, read_method="direct")
    with pytest.raises(ConsumerConfigError, match=r"1013[68]"):
        read(connection, name, subjects=subjects, read_method="consumer")


def test_filters_that_do_not_overlap_are_accepted(connection: Connection, streams: Streams) -> None:
    name = streams.filled(9)
    subjects = [f"{name}.0", f"{name}.1.z.>", f"{name}.1", f"{name}.*.x.y"]
    table, report = read(connection, name, subjects=subjects, read_method="direct")
    assert sequences(table) == [1, 2, 4, 5, 7, 8]
    assert (report.expected, report.missing) == (6, 0)


def test_overlapping_filters_are_accepted_and_each_message_comes_once(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    tails = ["a.b.c", "a.x.c", "x.b.c", "x.x.c", "a.b.x"]
    subjects = pa.array([f"{name}.{tail}" for tail in tails])
    bulk.publish(connection, pa.record_batch({"subject": subjects, "data": pa.array([b""] * len(tails))}))
    for read_method in ("consumer", "direct"):
        table, report = read(connection, name, subjects=[f"{name}.a.*.c", f"{name}.*.b.c"], read_method=read_method)
        assert sequences(table) == [1, 2, 3]
        assert (report.missing, report.complete) == (0, True)


def test_rows_have_the_headers_of_the_publisher_and_the_sequences_of_the_stream(
    connection: Connection, streams: Streams
) -> None:
    name = streams.make(retention=RetentionPolicy.WORK_QUEUE)
    copied = [("Nats-Stream", ["ORIGIN"]), ("Nats-Subject", ["o"]), ("Nats-Sequence", ["77"]), ("Own", ["a", "b"])]
    stamped = [
        ("Nats-Time-Stamp", ["2001-01-01T00:00:00Z"]),
        ("Nats-Num-Pending", ["5"]),
        ("Nats-Last-Sequence", ["9"]),
    ]
    headers = [None, copied, stamped, None]
    batch = rows(f"{name}.x", [b"0", b"1", b"2", b""]).append_column("headers", pa.array(headers, HEADERS))
    bulk.publish(connection, batch)
    table, report = read(connection, name)
    assert table.column("headers").to_pylist() == headers
    assert sequences(table) == [1, 2, 3, 4]
    assert table.column("subject").to_pylist() == [f"{name}.x"] * 4
    assert table.column("timestamp_ns").to_pylist() == [streams.stored_ns(name, number) for number in range(1, 5)]
    assert report.missing == 0


def test_requests_never_exceed_the_bytes_in_flight(server: NatsServer, streams: Streams) -> None:
    name = streams.filled(3000, size=1000)
    requests: list[bytes] = []

    def note(data: bytes) -> bytes:
        requests.append(data)
        return data

    with (
        Proxy(server, note) as proxy,
        bulk.connect(proxy.url) as own,
        bulk.scan(own, name, max_bytes_in_flight=100_000, read_method="direct") as batches,
    ):
        assert sum(map(len, batches)) == 3000
    ends = b"".join(requests).count(b"NATS/1.0 204")
    assert ends >= 3_000_000 // 100_000 - 1


def replies(*messages: tuple[bytes, bytes]) -> FrameTable:
    """Return header blocks and payloads as frames."""
    frames = b"".join(
        b"HMSG _INBOX.x 1 %d %d\r\n%s%s\r\n" % (len(block), len(block) + len(payload), block, payload)
        for block, payload in messages
    )
    return decode(pa.py_buffer(frames))


def block(*pairs: tuple[str, str]) -> bytes:
    return header_block.encode_header_block(list(pairs))


PLACE = {
    "Nats-Stream": "S",
    "Nats-Subject": "s.x",
    "Nats-Sequence": "7",
    "Nats-Time-Stamp": "2026-01-02T03:04:05.000000006Z",
    "Nats-Num-Pending": "3",
    "Nats-Last-Sequence": "5",
}


def test_server_headers_in_another_order_are_read_too() -> None:
    turned = block(("Own", "1"), ("Nats-Sequence", "1"), *reversed(PLACE.items()))
    straight = block(*PLACE.items())
    end = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 7\r\n\r\n"
    run, ended = read_replies(replies((straight, b"a"), (turned, b"b"), (end, b"")), "S", "here")
    assert run.sequence.tolist() == [7, 7]
    assert run.previous_sequence.tolist() == [5, 5]
    assert run.timestamp_ns.tolist() == [1_767_323_045_000_000_006] * 2
    assert run.pending == 3
    assert ended == DirectBatchEnd(3, 7)
    batch = run.to_record_batch(pa.schema(list(COLUMNS.items())))
    assert batch.column("subject").to_pylist() == ["s.x", "s.x"]
    assert batch.column("data").to_pylist() == [b"a", b"b"]
    assert [sorted(row or []) for row in batch.column("headers").to_pylist()] == [
        [],
        [("Nats-Sequence", ["1"]), ("Own", ["1"])],
    ]


def test_a_server_without_batch_answers_is_reported() -> None:
    old = {name: value for name, value in PLACE.items() if name not in {"Nats-Num-Pending", "Nats-Last-Sequence"}}
    with pytest.raises(ConfigError, match=r"here: .*2\.11 or newer"):
        read_replies(replies((block(*old.items()), b"a")), "S", "here")


def test_an_invalid_answer_is_refused() -> None:
    with pytest.raises(InvalidReplyError, match="here"):
        read_replies(replies((block(("A", "b")), b"a")), "S", "here")
    with pytest.raises(InvalidReplyError, match="here"):
        read_replies(replies((block(*{**PLACE, "Nats-Time-Stamp": "yesterday"}.items()), b"a")), "S", "here")
    with pytest.raises(InvalidReplyError, match="here"):
        read_replies(replies((block(*{**PLACE, "Nats-Sequence": "9" * 30}.items()), b"a")), "S", "here")


def test_different_ends_of_a_batch_are_distinguished() -> None:
    assert read_replies(replies((b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")), "S", "here")[1] == DirectBatchEnd(
        found=False
    )
    for status in (b"503", b"429 Too Many Requests"):
        with pytest.raises(InterruptedReadError, match="here"):
            read_replies(replies((b"NATS/1.0 %s\r\n\r\n" % status, b"")), "S", "here")
    with pytest.raises(DirectGetRequestError):
        read_replies(replies((b"NATS/1.0 408 Bad Request\r\n\r\n", b"")), "S", "here")
