"""After a lost connection or server, a scan continues after the last row and returns every sequence once."""

import random
import threading
import time
from collections.abc import Iterator

import pytest
from tests.bulk.proxy import NthOf, Proxy, cut_after, drop_frame
from tests.bulk.streams import Streams, read, sequences
from tests.stores import before

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.errors import ConnectError, DisconnectedError, Error, PermissionsViolationError, RequestTimeoutError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.names import api_prefix
from jetspark.server import NatsCluster, NatsServer
from jetspark.wire.vector import FrameTable

BY = pytest.mark.parametrize("read_method", ["consumer", "direct"])


@pytest.fixture(scope="module")
def stored(server: NatsServer) -> Iterator[str]:
    """A stream of 20,000 messages that no test changes."""
    with bulk.connect(server.url) as connected:
        yield Streams(connected).filled(20_000, size=100)


@BY
def test_a_connection_that_is_cut_at_any_byte_loses_nothing(server: NatsServer, stored: str, read_method: str) -> None:
    rng = random.Random(7)
    for count in (2000, *(rng.randrange(100, 800_000) for _ in range(4))):
        with Proxy(server, cut_after(count), cut_after(count // 2 + 700)) as proxy:
            try:
                own = bulk.connect(proxy.url)
            except Error:
                assert count < 2000  # not even the INFO of the server arrived
                continue
            with own:
                table, report = read(own, stored, columns=["sequence"], end_sequence=5001, read_method=read_method)
            assert sequences(table) == list(range(1, 5001))
            assert (report.received, report.missing, report.complete) == (5000, 0, True)
            assert proxy.connections == report.restarts + 1


@BY
def test_without_retries_a_lost_connection_is_an_error(
    server: NatsServer, stored: str, read_method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise it might be lost during a request to a server that is paused, with the data that had arrived.
    monkeypatch.setattr("jetspark.bulk.consumer_source._FIRST_CHECK_AFTER", 30.0)
    with Proxy(server, cut_after(500_000)) as proxy, bulk.connect(proxy.url) as own:
        with bulk.scan(own, stored, retry_timeout=0, max_batch_rows=100, read_method=read_method) as batches:
            got = sequences(next(batches))
            with pytest.raises(DisconnectedError, match=proxy.url):
                got.extend(number for batch in batches for number in sequences(batch))
        assert got == list(range(1, len(got) + 1))
        assert len(got) > 100
        assert (batches.report.received, batches.report.complete, batches.report.missing) == (len(got), False, 0)
        assert own.closed


def test_a_server_that_stays_away_ends_the_scan_at_the_timeout(stored: str, server: NatsServer) -> None:
    with Proxy(server) as proxy, bulk.connect(proxy.url) as own:
        batches = bulk.scan(own, stored, retry_timeout=0.3, max_batch_rows=100, max_bytes_in_flight=200_000)
        next(batches)
        proxy.close()
        began = time.monotonic()
        with pytest.raises((ConnectError, DisconnectedError)):
            list(batches)
        assert time.monotonic() - began < 15


@pytest.mark.parametrize("number", [1, 2, 5000, 19_999, 20_000])
@BY
def test_a_lost_message_is_noticed_and_read_again(
    server: NatsServer, stored: str, number: int, read_method: str
) -> None:
    with Proxy(server, drop_frame(NthOf(number, 100))) as proxy, bulk.connect(proxy.url) as own:
        table, report = read(own, stored, columns=["sequence"], timeout=2, read_method=read_method)
    assert sequences(table) == list(range(1, 20_001))
    assert report.restarts == 1


def test_a_batch_whose_end_is_lost_is_requested_again(server: NatsServer, stored: str) -> None:
    def is_end(table: FrameTable, row: int) -> bool:
        return table.message(row).header.startswith(b"NATS/1.0 204")

    with Proxy(server, drop_frame(is_end)) as proxy, bulk.connect(proxy.url) as own:
        with bulk.scan(own, stored, read_method="direct", max_bytes_in_flight=1 << 20, timeout=1) as batches:
            got = [number for batch in batches for number in sequences(batch)]
        assert got == list(range(1, 20_001))
        assert batches.report.restarts == 1


@BY
def test_a_scan_continues_after_a_restart_of_the_server(read_method: str) -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = streams.filled(20_000, size=100)
        with bulk.scan(
            own, name, max_bytes_in_flight=100_000, columns=["sequence"], read_method=read_method
        ) as batches:
            got = sequences(next(batches))
            server.kill()
            restarting = threading.Thread(target=server.restart)
            restarting.start()
            for batch in batches:
                got += sequences(batch)
            restarting.join()
        assert got == list(range(1, 20_001))
        assert (batches.report.missing, batches.report.complete) == (0, True)
        assert batches.report.restarts >= 1
        assert streams.no_consumers(name)


@BY
def test_a_scan_continues_after_a_pause_of_the_server(read_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        monkeypatch.setattr(own, "reconnect", before(own.reconnect, server.resume))  # when the scan has enough
        streams = Streams(own)
        name = streams.filled(20_000, size=100)
        with bulk.scan(
            own, name, max_bytes_in_flight=100_000, columns=["sequence"], timeout=0.8, read_method=read_method
        ) as batches:
            got = sequences(next(batches))
            server.pause()
            for batch in batches:
                got += sequences(batch)
        assert got == list(range(1, 20_001))
        assert batches.report.complete
        assert batches.report.restarts


@pytest.mark.matrix
def test_a_scan_continues_after_the_leader_of_a_cluster_is_killed() -> None:
    with NatsCluster() as cluster, bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        name = streams.make_as(StreamConfig(name="R3", num_replicas=3, allow_direct=True))
        streams.fill(name, 20_000, size=100)
        with bulk.scan(
            own, name, max_bytes_in_flight=100_000, columns=["sequence"], timeout=1, retry_timeout=60
        ) as batches:
            got = sequences(next(batches))
            cluster.wait_stream_leader(name).kill()
            for batch in batches:
                got += sequences(batch)
        assert got == list(range(1, 20_001))
        assert (batches.report.missing, batches.report.complete) == (0, True)
        table, report = read(own, name, columns=["sequence"], read_method="direct")
        assert sequences(table) == got
        assert (report.missing, report.complete) == (0, True)


@pytest.mark.matrix
def test_a_scan_that_starts_during_an_election_waits_for_the_leader() -> None:
    with NatsCluster() as cluster, bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        name = streams.make_as(StreamConfig(name="R3", num_replicas=3))
        streams.fill(name, 100)
        cluster.wait_stream_leader(name).kill()
        table, report = read(own, name, columns=["sequence"], timeout=1, retry_timeout=60)
        assert sequences(table) == list(range(1, 101))
        assert report.complete
        assert report.restarts  # an election takes longer


@pytest.mark.parametrize("domain", [None, "hub"])
def test_ack_subjects_of_the_second_format_are_read(domain: str | None) -> None:
    config: dict[str, object] = {"feature_flags": {"js_ack_fc_v2": True}}
    if domain is not None:
        config["jetstream"] = {"domain": domain}
    prefix = api_prefix(domain=domain)
    with NatsServer(config=config) as server, bulk.connect(server.url) as own:
        streams = Streams(own, prefix)
        name = streams.filled(5000)
        replies: list[bytes] = []
        assert own.server_info.domain == (domain or "")

        def note(data: bytes) -> bytes:
            replies.append(data)
            return data

        with Proxy(server, note) as proxy, bulk.connect(proxy.url) as watched:
            table, report = read(watched, name, prefix=prefix)
        assert f"$JS.ACK.{domain or '_'}.".encode() in b"".join(replies)
        assert sequences(table) == list(range(1, 5001))
        assert (report.expected, report.missing) == (5000, 0)
        stored_ns = streams.stored_ns(name, 4321)
        assert table.column("timestamp_ns")[4320].as_py() == stored_ns
        assert sequences(read(own, name, prefix=prefix, start_time=stored_ns, end_sequence=4323)[0]) == [
            4321,
            4322,
        ]


def test_a_user_with_a_private_inbox_prefix_can_do_everything() -> None:
    config = {
        "authorization": {
            "users": [
                {
                    "user": "u",
                    "password": "p",
                    "permissions": {"publish": ">", "subscribe": {"allow": ["private.u.>"]}},
                }
            ]
        }
    }
    with NatsServer(config=config) as server:
        with bulk.connect(server.url, user="u", password="p", inbox_prefix="private.u") as own:
            streams = Streams(own)
            name = streams.filled(1000)
            for read_method in ("consumer", "direct"):
                assert sequences(read(own, name, read_method=read_method)[0]) == list(range(1, 1001))
        with bulk.connect(server.url, user="u", password="p") as own:
            with pytest.raises(PermissionsViolationError, match="_INBOX") as caught:
                read(own, name)
            assert caught.value.operation == "subscribe"
            assert caught.value.subject is not None
            assert caught.value.subject.startswith("_INBOX.")


def test_a_connection_without_answers_is_replaced(server: NatsServer, stored: str) -> None:
    """The first connection falls silent during the scan without being closed."""
    seen = 0

    def go_silent(data: bytes) -> bytes:
        nonlocal seen
        seen += len(data)
        return data if seen < 300_000 else b""

    with Proxy(server, go_silent) as proxy, bulk.connect(proxy.url) as own:
        table, report = read(own, stored, columns=["sequence"], timeout=1)
        assert sequences(table) == list(range(1, 20_001))
        assert proxy.connections == 2
        assert report.restarts >= 1


def test_nothing_is_retried_before_the_stream_is_known(connection: Connection) -> None:
    began = time.monotonic()
    with pytest.raises(Error, match="NOPE"):
        read(connection, "NOPE", retry_timeout=30)
    assert time.monotonic() - began < 15


def test_an_idle_connection_that_was_lost_is_opened_again(server: NatsServer, stored: str) -> None:
    with Proxy(server) as proxy, bulk.connect(proxy.url) as own:
        proxy.cut()
        table, report = read(own, stored, columns=["sequence"], end_sequence=100)
        assert (sequences(table), report.restarts) == (list(range(1, 100)), 1)


def test_a_request_without_an_answer_times_out(stored: str) -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        server.pause()
        with pytest.raises(RequestTimeoutError, match=r"STREAM\.INFO\.S within 0\.2 s"):
            read(own, "S", timeout=0.2, retry_timeout=0)
        server.resume()
