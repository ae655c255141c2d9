"""Publishing that continues when the connection or the server is lost, and stores every row once."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.bulk.proxy import LateStream, Proxy, Tamper, cut_after
from tests.bulk.streams import Streams, read, rows

from jetspark import bulk
from jetspark.errors import BadNameError, ConnectError, NoStreamResponseError, PublishTimeoutError, WrongStreamError
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsServer

COUNT = 20_000


def with_ids(name: str, count: int = COUNT, tokens: int = 1) -> pa.RecordBatch:
    numbers = range(count)
    return pa.record_batch(
        {
            "subject": [f"{name}.{number % tokens}" for number in numbers],
            "data": [b"%d" % number for number in numbers],
            "msg_id": [str(number) for number in numbers],
        }
    )


def stored(streams: Streams, name: str) -> list[int]:
    table, _ = read(streams.connection, name, columns=["data"])
    return sorted(map(int, table.column("data").to_pylist()))


@pytest.mark.parametrize("cuts", [[3000], [20_000, 500], [60_000, 60_000, 5000], [150_000]])
def test_rows_with_lost_answers_are_sent_again(server: NatsServer, streams: Streams, cuts: list[int]) -> None:
    name = streams.make()
    with Proxy(server, *map(cut_after, cuts)) as proxy, bulk.connect(proxy.url) as own:
        report = bulk.publish(own, with_ids(name), retry_timeout=10)
        assert proxy.connections == len(cuts) + 1
    assert report.count == COUNT
    assert 0 < report.duplicates <= report.resent
    assert stored(streams, name) == list(range(COUNT))


def test_rows_of_several_streams_with_lost_answers_are_sent_again(server: NatsServer, streams: Streams) -> None:
    one, two = streams.make(), streams.make()
    numbers = range(COUNT)
    batch = pa.record_batch(
        {
            "subject": [f"{(one, two)[number % 2]}.x" for number in numbers],
            "data": [b"%d" % number for number in numbers],
            "msg_id": [str(number) for number in numbers],
        }
    )
    for cut in (900, 5000, 100_000):
        with Proxy(server, cut_after(cut)) as proxy, bulk.connect(proxy.url) as own:
            report = bulk.publish(own, batch, retry_timeout=10)
    assert report.count >= COUNT  # an answer may be counted twice if answers of two streams arrive out of order
    assert stored(streams, one) == list(range(0, COUNT, 2))
    assert stored(streams, two) == list(range(1, COUNT, 2))


def test_a_server_that_is_killed_and_restarted_loses_and_repeats_nothing() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = streams.make()
        batch = with_ids(name)
        starting = threading.Timer(0.5, server.restart)

        def batches() -> Iterator[pa.RecordBatch]:
            yield batch.slice(0, 10_000)
            server.kill()
            starting.start()
            yield batch.slice(10_000)

        report = bulk.publish(own, batches(), retry_timeout=20)
        starting.join()
        assert (report.count, report.resent > 0) == (COUNT, True)
        assert stored(streams, name) == list(range(COUNT))


def test_a_server_that_stays_away_causes_its_error_at_the_timeout() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        name = Streams(own).make()
        bulk.publish(own, with_ids(name, 10))
        server.kill()
        with pytest.raises(ConnectError):
            bulk.publish(own, with_ids(name), retry_timeout=0.3)


def silent_after(count: int) -> Tamper:
    """Pass no data after a number of bytes, and keep the connection."""
    left = count

    def tamper(data: bytes) -> bytes:
        nonlocal left
        part = data[: max(left, 0)]
        left -= len(data)
        return part

    return tamper


def test_a_silent_connection_is_opened_again(server: NatsServer, streams: Streams) -> None:
    name = streams.make()
    with Proxy(server, silent_after(5000)) as proxy, bulk.connect(proxy.url) as own:
        report = bulk.publish(own, with_ids(name), ack_timeout=1, retry_timeout=10)
        assert proxy.connections == 2
    assert report.count == COUNT
    assert stored(streams, name) == list(range(COUNT))


def test_without_a_retry_timeout_silence_ends_the_publish(server: NatsServer, streams: Streams) -> None:
    name = streams.make()
    with (
        Proxy(server, silent_after(5000)) as proxy,
        bulk.connect(proxy.url) as own,
        pytest.raises(PublishTimeoutError, match=r"all rows before row \d+ are answered"),
    ):
        bulk.publish(own, with_ids(name), ack_timeout=0.3)


def test_a_stream_that_is_created_late_gets_its_rows_again(server: NatsServer, streams: Streams) -> None:
    name = streams.new_name()
    config = StreamConfig(name=name, subjects=[f"{name}.>"], allow_direct=True)
    late = LateStream(100, lambda: streams.make_as(config))
    with Proxy(server, late) as proxy, bulk.connect(proxy.url) as own:
        late.armed = True
        report = bulk.publish(own, with_ids(name, 100))
    assert (report.count, report.resent >= 100, report.duplicates) == (100, True, 0)
    assert stored(streams, name) == list(range(100))
    streams.delete(name)
    with pytest.raises(bulk.PublishRefusedError) as caught:
        bulk.publish(streams.connection, with_ids(name, 100))
    assert isinstance(caught.value.error, NoStreamResponseError)


def test_a_row_of_an_unexpected_stream_is_refused(streams: Streams) -> None:
    one, two = streams.make(), streams.make()
    with pytest.raises(bulk.PublishRefusedError, match=f"row 0, subject '{two}.x'") as caught:
        bulk.publish(streams.connection, rows(f"{two}.x", [b"not"]), expected_stream=one)
    assert isinstance(caught.value.error, WrongStreamError)
    assert stored(streams, two) == []
    headed = rows(f"{one}.x", [b"1"]).append_column("msg_id", pa.array(["id"]))
    bulk.publish(streams.connection, headed, expected_stream=one)
    table, _ = read(streams.connection, one)
    assert table.column("headers")[-1].as_py() == [("Nats-Msg-Id", ["id"]), ("Nats-Expected-Stream", [one])]
    with pytest.raises(BadNameError):
        bulk.publish(streams.connection, headed, expected_stream="a.b")
