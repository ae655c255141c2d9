"""Publishing without answers or with a lost connection: the report is exact, and a repeat stores each row once."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams, read, rows, until

from jetspark import bulk
from jetspark.errors import ConnectionClosedError, DisconnectedError, PublishTimeoutError
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsServer


def with_ids(name: str, count: int) -> pa.RecordBatch:
    payloads = [b"%d" % number for number in range(count)]
    return rows(f"{name}.x", payloads).append_column("msg_id", pa.array([str(number) for number in range(count)]))


def test_a_stream_without_acknowledgements_causes_a_timeout(server: NatsServer, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), no_ack=True, allow_direct=True))
    with bulk.connect(server.url) as own:
        with pytest.raises(PublishTimeoutError, match=r"no acknowledgement within 0\.2 s for 10 messages") as caught:
            bulk.publish(own, rows(f"{name}.x", [b"x"] * 10), ack_timeout=0.2)
        assert isinstance(caught.value, TimeoutError)
        assert "the server answers PING, so the stream cannot store: its disk may be full" in str(caught.value)
        assert until(lambda: streams.info(name).state.messages >= 10)  # it stores them later
        assert read(own, name)[0].num_rows == 10


@pytest.mark.parametrize("cut", [3000, 20_000, 60_000, 150_000])
def test_a_lost_connection_reports_confirmed_rows_and_a_repeat_stores_each_row_once(
    server: NatsServer, streams: Streams, cut: int
) -> None:
    name = streams.make()
    batch = with_ids(name, 20_000)
    with Proxy(server, cut_after(cut)) as proxy, bulk.connect(proxy.url) as own:
        with pytest.raises(DisconnectedError, match=r"all rows before row (\d+) are answered") as caught:
            bulk.publish(own, batch)
        certain = int(str(caught.value).partition("before row ")[2].split()[0])
        own.reconnect()
        stored = streams.info(name).state.messages
        assert certain <= stored
        report = bulk.publish(own, batch)
    assert report.count == 20_000
    assert report.duplicates >= certain
    table, _ = read(streams.connection, name, columns=["data"])
    assert sorted(table.column("data").to_pylist(), key=int) == [b"%d" % number for number in range(20_000)]


def test_an_atomic_batch_without_an_answer_says_that_the_stream_cannot_store(
    server: NatsServer, streams: Streams
) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), no_ack=True, allow_atomic=True))
    text = "the server answers PING, so the stream cannot store"
    with bulk.connect(server.url) as own, pytest.raises(PublishTimeoutError, match=text):
        bulk.publish_atomic(own, rows(f"{name}.x", [b"x"] * 10), ack_timeout=0.2)


def test_a_server_that_is_silent_is_not_taken_for_a_stream_that_cannot_store() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        name = Streams(own).make()
        server.pause()
        try:
            with pytest.raises(PublishTimeoutError, match=r"no acknowledgement within 0\.2 s") as caught:
                bulk.publish(own, rows(f"{name}.x", [b"x"] * 10), ack_timeout=0.2)
        finally:
            server.resume()
        assert "PING" not in str(caught.value)


def test_a_server_that_is_paused_briefly_causes_no_error() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = streams.make()
        streams.fill(name, 1)
        server.pause()
        waking = threading.Timer(0.5, server.resume)
        waking.start()
        report = bulk.publish(own, with_ids(name, 20_000), ack_timeout=10)
        waking.join()
        assert (report.count, report.duplicates) == (20_000, 0)


def test_a_server_that_stays_paused_causes_an_error_and_a_repeat_stores_each_row_once() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = streams.make()
        batch = with_ids(name, 20_000)
        server.pause()
        with pytest.raises((PublishTimeoutError, DisconnectedError)):
            bulk.publish(own, batch, ack_timeout=0.3)
        server.resume()
        if own.closed:
            own.reconnect()
        assert bulk.publish(own, batch).count == 20_000
        assert streams.info(name).state.messages == 20_000


def test_a_killed_server_loses_no_acknowledged_row() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = streams.make()
        batch = with_ids(name, 20_000)
        sent = iter([batch.slice(0, 10_000), batch.slice(10_000)])

        def batches() -> Iterator[pa.RecordBatch]:
            yield next(sent)
            server.kill()
            yield next(sent)

        with pytest.raises(DisconnectedError):
            bulk.publish(own, batches())
        with pytest.raises(ConnectionClosedError):
            bulk.publish(own, batch)
        server.restart()
        own.reconnect()
        report = bulk.publish(own, batch)
        assert report.count == 20_000
        assert streams.info(name).state.messages == 20_000
