"""A fetch into record batches: its messages, its end, and its acknowledgements."""

import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams, until

from jetspark import ConnectOptions, bulk
from jetspark.bulk import Connection, FetchReader, ScanReader
from jetspark.errors import ConfigError, DisconnectedError, NoRespondersError, StatusError
from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, ConsumerInfoRequest
from jetspark.jetstream.config import PriorityPolicy
from jetspark.server import NatsServer


def made(streams: Streams, stream: str, ack: AckPolicy = AckPolicy.EXPLICIT, *, pinned: bool = False) -> None:
    config = ConsumerConfig(
        durable_name="c",
        ack_policy=ack,
        ack_wait=timedelta(seconds=30),
        max_ack_pending=-1,
        priority_groups=["g"] if pinned else None,
        priority_policy=PriorityPolicy.PINNED_CLIENT if pinned else None,
    )
    streams.connection.request(ConsumerCreateRequest(stream, config))


def info(streams: Streams, stream: str) -> ConsumerInfo:
    return streams.connection.request(ConsumerInfoRequest(stream, "c"))


def connections(server: NatsServer) -> int:
    found = server.monitor("/connz")["num_connections"]
    assert isinstance(found, int)
    return found


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["sequence"].to_pylist()]


def test_a_fetch_returns_the_requested_messages_and_the_next_one_continues(
    connection: Connection, streams: Streams
) -> None:
    stream = streams.filled(10_000, size=100)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_messages=6000) as fetched:
        assert numbers(list(fetched)) == list(range(1, 6001))
        assert fetched.received == 6000
    with bulk.fetch(connection, stream, "c", max_messages=6000, no_wait=True, columns=["sequence"]) as rest:
        table = rest.to_reader().read_all()
    assert table.schema == pa.schema([("sequence", pa.int64())])
    assert table["sequence"].to_pylist() == list(range(6001, 10_001))


@pytest.mark.parametrize("policy", [AckPolicy.EXPLICIT, AckPolicy.ALL])
def test_one_ack_covers_all_returned_messages(connection: Connection, streams: Streams, policy: AckPolicy) -> None:
    stream = streams.filled(3000)
    made(streams, stream, policy)
    with bulk.fetch(connection, stream, "c", max_messages=2000) as fetched:
        list(fetched)
        assert info(streams, stream).num_ack_pending == 2000
        fetched.ack()
        state = info(streams, stream)
        assert (state.num_ack_pending, state.ack_floor.stream_sequence, state.num_pending) == (0, 2000, 1000)
        fetched.ack()  # no message is left to acknowledge
    with bulk.fetch(connection, stream, "c", max_messages=1) as fetched:
        list(fetched)
        fetched.ack()
    assert info(streams, stream).ack_floor.stream_sequence == 2001


def test_a_consumer_without_acks_gets_none(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(10)
    made(streams, stream, AckPolicy.NONE)
    with bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        assert numbers(list(fetched)) == list(range(1, 11))
        fetched.ack()


def test_a_fetch_that_times_out_returns_its_messages(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    begin = time.monotonic()
    with bulk.fetch(connection, stream, "c", max_messages=10, timeout=0.6) as fetched:
        assert numbers(list(fetched)) == [1, 2, 3, 4, 5]
    assert 0.5 < time.monotonic() - begin < 20


def test_a_fetch_waits_for_later_messages(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(1)
    made(streams, stream)
    later = threading.Timer(0.2, streams.fill, (stream, 2))
    later.start()
    with bulk.fetch(connection, stream, "c", max_messages=3, timeout=10) as fetched:
        assert numbers(list(fetched)) == [1, 2, 3]
    later.join()


def test_a_byte_limit_counts_like_the_server(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(100, size=100)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_bytes=1000, timeout=5) as fetched:
        got = numbers(list(fetched))
    assert got == list(range(1, len(got) + 1))
    assert 3 < len(got) < 10


def test_an_error_status_is_raised_after_the_messages(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_messages=10, timeout=30) as fetched:
        batches = [next(fetched)]
        while fetched.received < 5:
            batches.append(next(fetched))
        assert numbers(batches) == [1, 2, 3, 4, 5]
        streams.connection.request(ConsumerDeleteRequest(stream, "c"))
        with pytest.raises(StatusError, match="Consumer Deleted"):
            next(fetched)


def test_a_consumer_that_is_deleted_before_the_ack_is_reported(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        next(fetched)
        fetched.ack()
        streams.fill(stream, 5)
        list(fetched)
        streams.connection.request(ConsumerDeleteRequest(stream, "c"))
        with pytest.raises(NoRespondersError, match="no such consumer: it was removed"):
            fetched.ack()
    with pytest.raises(StatusError), bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        next(fetched)


def test_the_id_of_a_pinned_client_is_remembered(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream, pinned=True)
    with bulk.fetch(connection, stream, "c", max_messages=5, group="g") as fetched:
        assert numbers(list(fetched)) == [1, 2, 3, 4, 5]
    groups = info(streams, stream).priority_groups
    assert groups is not None
    assert groups[0].pinned_client_id


def test_invalid_arguments_are_refused(connection: Connection) -> None:
    with pytest.raises(ConfigError, match="max_messages or max_bytes"):
        bulk.fetch(connection, "S", "c")
    with pytest.raises(ConfigError, match="no column"):
        bulk.fetch(connection, "S", "c", max_messages=1, columns=["size"])


def test_a_lost_connection_is_reported_after_the_messages(server: NatsServer, streams: Streams) -> None:
    stream = streams.filled(5000, size=1000)
    made(streams, stream)
    with Proxy(server, cut_after(2_000_000)) as proxy, bulk.connect(proxy.url) as own:
        with bulk.fetch(own, stream, "c", max_messages=5000) as fetched, pytest.raises(DisconnectedError):
            list(fetched)
        assert 0 < fetched.received < 5000


def test_readers_with_their_own_connection_leave_nothing_open(server: NatsServer, streams: Streams) -> None:
    stream = streams.filled(1000)
    made(streams, stream)
    own_options = ConnectOptions(servers=(server.url,))
    before = connections(server)
    with FetchReader(own_options, lambda own: bulk.fetch(own, stream, "c", max_messages=10)) as fetched:
        assert pa.table(fetched).num_rows == 10
        fetched.ack()
        assert fetched.received == 10
    scanned = ScanReader(own_options, lambda own: bulk.scan(own, stream))
    assert scanned.read_all().num_rows == 1000
    assert scanned.report.complete
    assert until(lambda: connections(server) <= before)
    assert info(streams, stream).ack_floor.stream_sequence == 10
    # The consumer of the scan: its deletion was the last request of the connection.
    assert until(lambda: streams.consumers(stream) == ["c"])


def test_messages_that_were_not_returned_come_at_once_to_the_next_fetch(
    connection: Connection, streams: Streams
) -> None:
    stream = streams.filled(40, size=300_000)
    made(streams, stream)
    fetched = bulk.fetch(connection, stream, "c", max_messages=40, timeout=60)
    got = len(next(fetched))
    assert got < 40
    assert until(lambda: info(streams, stream).delivered.stream_sequence == 40)
    fetched.close()
    with bulk.fetch(connection, stream, "c", max_messages=40 - got, timeout=10) as rest:
        assert numbers(list(rest)) == list(range(got + 1, 41))


def test_a_fetch_without_references_ends_its_pull(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(1)
    made(streams, stream)
    for _ in bulk.fetch(connection, stream, "c", max_messages=10, timeout=60):
        assert info(streams, stream).num_waiting == 1
        break
    assert until(lambda: info(streams, stream).num_waiting == 0)


def test_a_read_that_is_interrupted_gives_all_of_its_messages_back(
    connection: Connection, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    fetched = bulk.fetch(connection, stream, "c", max_messages=10, timeout=60)
    read = connection.read

    def interrupted_later(*arguments: Any, **options: Any) -> Any:
        if fetched.received < 5:
            return read(*arguments, **options)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "read", interrupted_later)
    with pytest.raises(KeyboardInterrupt):
        fetched.read_all()
    assert fetched.received == 0
    with bulk.fetch(connection, stream, "c", max_messages=5, timeout=10) as rest:
        assert numbers(list(rest)) == [1, 2, 3, 4, 5]


def test_a_connection_without_references_is_closed_with_a_warning(server: NatsServer) -> None:
    before = connections(server)
    opened = bulk.connect(server.url)
    with pytest.warns(ResourceWarning, match=r"unclosed <Connection to nats://127"):
        del opened
    assert until(lambda: connections(server) <= before)


@pytest.mark.parametrize("how", ["break", "error", "drop", "close"])
def test_a_reader_that_is_left_half_way_leaves_no_consumer(server: NatsServer, streams: Streams, how: str) -> None:
    stream = streams.filled(200, size=100_000)
    reader = ScanReader(ConnectOptions(servers=(server.url,)), lambda own: bulk.scan(own, stream, max_batch_rows=5))
    before = connections(server)
    assert len(next(reader))
    assert len(streams.consumers(stream)) == 1
    if how == "break":
        for _ in reader:
            break
    elif how == "error":
        with suppress(ZeroDivisionError):
            for _ in reader:
                raise ZeroDivisionError
    if how == "close":
        reader.close()
    del reader
    assert until(lambda: not streams.consumers(stream) and connections(server) <= before)
