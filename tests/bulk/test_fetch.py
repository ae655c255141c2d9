"""A fetch into record batches: what it brings, when it ends, and what becomes acknowledged."""

import threading
import time
from datetime import timedelta

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


def test_a_fetch_brings_what_was_asked_for_and_the_next_one_goes_on(connection: Connection, streams: Streams) -> None:
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
def test_an_ack_is_for_all_that_was_handed_out(connection: Connection, streams: Streams, policy: AckPolicy) -> None:
    stream = streams.filled(3000)
    made(streams, stream, policy)
    with bulk.fetch(connection, stream, "c", max_messages=2000) as fetched:
        list(fetched)
        assert info(streams, stream).num_ack_pending == 2000
        fetched.ack()
        state = info(streams, stream)
        assert (state.num_ack_pending, state.ack_floor.stream_seq, state.num_pending) == (0, 2000, 1000)
        fetched.ack()  # nothing is left to acknowledge
    with bulk.fetch(connection, stream, "c", max_messages=1) as fetched:
        list(fetched)
        fetched.ack()
    assert info(streams, stream).ack_floor.stream_seq == 2001


def test_a_consumer_that_wants_no_acks_gets_none(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(10)
    made(streams, stream, AckPolicy.NONE)
    with bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        assert numbers(list(fetched)) == list(range(1, 11))
        fetched.ack()


def test_a_fetch_ends_when_its_time_is_up_with_what_came(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    begin = time.monotonic()
    with bulk.fetch(connection, stream, "c", max_messages=10, expires=2.0) as fetched:
        assert numbers(list(fetched)) == [1, 2, 3, 4, 5]
    assert 1.9 < time.monotonic() - begin < 20


def test_a_fetch_waits_for_messages_that_come_later(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(1)
    made(streams, stream)
    later = threading.Timer(0.2, streams.fill, (stream, 2))
    later.start()
    with bulk.fetch(connection, stream, "c", max_messages=3, expires=10) as fetched:
        assert numbers(list(fetched)) == [1, 2, 3]
    later.join()


def test_bytes_bound_a_fetch_as_the_server_counts_them(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(100, size=100)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_bytes=1000, expires=5) as fetched:
        got = numbers(list(fetched))
    assert got == list(range(1, len(got) + 1))
    assert 3 < len(got) < 10


def test_an_error_status_is_raised_behind_the_messages(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_messages=10, expires=30) as fetched:
        batches = [next(fetched)]
        while fetched.received < 5:
            batches.append(next(fetched))
        assert numbers(batches) == [1, 2, 3, 4, 5]
        streams.connection.request(ConsumerDeleteRequest(stream, "c"))
        with pytest.raises(StatusError, match="Consumer Deleted"):
            next(fetched)


def test_a_consumer_that_goes_before_the_ack_is_told(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream)
    with bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        next(fetched)
        fetched.ack()
        streams.fill(stream, 5)
        list(fetched)
        streams.connection.request(ConsumerDeleteRequest(stream, "c"))
        with pytest.raises(NoRespondersError, match="check that it exists"):
            fetched.ack()
    with pytest.raises(StatusError), bulk.fetch(connection, stream, "c", max_messages=10) as fetched:
        next(fetched)


def test_the_id_of_a_pinned_client_is_learned(connection: Connection, streams: Streams) -> None:
    stream = streams.filled(5)
    made(streams, stream, pinned=True)
    with bulk.fetch(connection, stream, "c", max_messages=5, group="g") as fetched:
        assert numbers(list(fetched)) == [1, 2, 3, 4, 5]
    groups = info(streams, stream).priority_groups
    assert groups is not None
    assert groups[0].pinned_client_id


def test_what_makes_no_sense_is_refused(connection: Connection) -> None:
    with pytest.raises(ConfigError, match="max_messages or max_bytes"):
        bulk.fetch(connection, "S", "c")
    with pytest.raises(ConfigError, match="no column"):
        bulk.fetch(connection, "S", "c", max_messages=1, columns=["size"])


def test_a_lost_connection_is_told_behind_the_messages(server: NatsServer, streams: Streams) -> None:
    stream = streams.filled(5000, size=1000)
    made(streams, stream)
    with Proxy(server, cut_after(2_000_000)) as proxy, bulk.connect(proxy.url) as own:
        with bulk.fetch(own, stream, "c", max_messages=5000) as fetched, pytest.raises(DisconnectedError):
            list(fetched)
        assert 0 < fetched.received < 5000


def test_batches_of_their_own_connection_leave_nothing_behind(server: NatsServer, streams: Streams) -> None:
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
    assert info(streams, stream).ack_floor.stream_seq == 10
    # The scan's consumer: its deletion was the last that the connection said.
    assert until(lambda: streams.consumers(stream) == ["c"])
