"""A scan ends at the end of its range, whatever happened to the last messages, and reports losses."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.bulk.streams import Streams, read, rows, sequences, until

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk import connection as connection_module
from jetspark.bulk import consumer_source as consumer_module
from jetspark.bulk import open_session as open_session_module
from jetspark.errors import DataLossError, StreamNotFoundError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import ConsumerDeleteRequest, StreamUpdateRequest
from jetspark.server import NatsServer

BY = pytest.mark.parametrize("read_method", ["consumer", "direct"])


@BY
def test_a_scan_ends_if_messages_were_deleted_before(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(20)
    streams.drop(name, 1, 5, 9, 10, 18, 19, 20)
    left = [number for number in range(2, 18) if number not in {5, 9, 10}]
    table, report = read(connection, name, read_method=read_method)
    assert sequences(table) == left
    assert (report.expected, report.missing, report.complete) == (13, 0, True)
    table, report = read(connection, name, end_sequence=11, read_method=read_method)
    assert sequences(table) == [2, 3, 4, 6, 7, 8]
    assert (report.expected, report.missing) == (6, 0)
    table, report = read(connection, name, start_sequence=9, end_sequence=11, read_method=read_method)
    assert (sequences(table), report.expected, report.complete) == ([], 0, True)


@BY
def test_a_scan_ends_if_the_last_messages_do_not_match_the_filter(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(10)
    bulk.publish(connection, rows(f"{name}.other", [b"x"] * 50))
    table, report = read(connection, name, subjects=[f"{name}.0", f"{name}.1"], read_method=read_method)
    assert sequences(table) == [1, 2, 4, 5, 7, 8, 10]
    assert (report.expected, report.missing, report.complete) == (7, 0, True)


@BY
def test_a_scan_ends_if_everything_was_purged_before(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(10)
    streams.purge(name)
    table, report = read(connection, name, read_method=read_method)
    assert (table.num_rows, report.expected, report.missing, report.complete) == (0, 0, 0, True)
    assert (report.stream_first_sequence, report.stream_last_sequence) == (11, 10)
    table, _ = read(connection, name, start_sequence=3, end_sequence=8, read_method=read_method)
    assert table.num_rows == 0


def gone_while_read(
    connection: Connection, name: str, action: Callable[[], None], read_method: str, rows_read: int = 1
) -> tuple[list[int], bulk.ScanReport]:
    """Read with few bytes in flight, and call a function after the first batch."""
    with bulk.scan(
        connection, name, max_batch_rows=rows_read, max_bytes_in_flight=4000, timeout=1, read_method=read_method
    ) as batches:
        got = sequences(next(batches))
        assert batches.report.expected
        action()
        for batch in batches:
            got += sequences(batch)
        return got, batches.report


@BY
def test_a_scan_ends_if_the_last_messages_are_deleted_meanwhile(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)
    doomed = range(2990, 3001)
    got, report = gone_while_read(connection, name, lambda: streams.drop(name, *doomed), read_method)
    assert got == list(range(1, 2990))
    assert (report.expected, report.received, report.missing, report.complete) == (3000, 2989, 11, True)
    assert report.restarts == 0


@BY
def test_a_scan_ends_if_the_stream_is_purged_meanwhile(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)
    got, report = gone_while_read(connection, name, lambda: streams.purge(name), read_method)
    assert got == list(range(1, len(got) + 1))
    assert report.complete
    assert report.missing == 3000 - len(got) > 0


@BY
def test_a_scan_ends_if_the_first_messages_are_purged_meanwhile(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)
    got, report = gone_while_read(connection, name, lambda: streams.purge(name, up_to=2001), read_method)
    assert got[-1000:] == list(range(2001, 3001))
    assert got == sorted(set(got))
    assert report.missing == 3000 - len(got) > 0


@BY
def test_a_scan_ends_if_only_messages_after_the_range_are_left(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)

    def action() -> None:
        streams.purge(name)
        streams.fill(name, 10, first=3000)

    got, report = gone_while_read(connection, name, action, read_method)
    assert max(got) <= 3000
    assert (report.complete, report.missing) == (True, 3000 - len(got))


@BY
def test_a_scan_ends_if_the_last_messages_expire_meanwhile(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.new_name()
    config = StreamConfig(name=name, allow_direct=True, duplicate_window=timedelta(milliseconds=100))
    streams.make_as(config)
    streams.fill(name, 2000, size=100)

    def let_all_expire() -> None:
        config.max_age = timedelta(milliseconds=100)
        streams.connection.request(StreamUpdateRequest(config))
        assert until(lambda: not streams.info(name).state.messages)

    got, report = gone_while_read(connection, name, let_all_expire, read_method)
    assert got == list(range(1, len(got) + 1))
    assert (report.complete, report.missing) == (True, 2000 - len(got))


class Leap:
    """A replacement of the module `time` that can jump forward."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


def test_slow_processing_of_rows_does_not_count_as_silence_of_the_server(
    server: NatsServer, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = streams.filled(3000, size=100)
    leap = Leap()
    for module in (connection_module, consumer_module, open_session_module):
        monkeypatch.setattr(module, "time", leap)
    with (
        bulk.connect(server.url) as own,
        bulk.scan(
            own, name, max_batch_rows=100, max_bytes_in_flight=4000, retry_timeout=0, read_method="consumer"
        ) as batches,
    ):
        got = sequences(next(batches))
        streams.purge(name)
        leap.ahead += 100.0
        for batch in batches:
            got += sequences(batch)
            leap.ahead += 100.0
    assert got == list(range(1, len(got) + 1))
    assert (batches.report.complete, batches.report.restarts) == (True, 0)
    assert batches.report.missing == 3000 - len(got) > 0


@BY
def test_a_stream_that_is_deleted_during_a_scan_is_missing(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)
    with pytest.raises(StreamNotFoundError) as caught:
        gone_while_read(connection, name, lambda: streams.delete(name), read_method)
    assert caught.value.err_code == 10059


@BY
def test_a_stream_that_is_recreated_during_a_scan_is_not_taken_for_the_old_one(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.filled(3000, size=100)

    def action() -> None:
        streams.delete(name)
        streams.make_as(StreamConfig(name=name, allow_direct=True))
        streams.fill(name, 3000, size=100)

    with pytest.raises(DataLossError, match="deleted and created again") as caught:
        gone_while_read(connection, name, action, read_method)
    assert caught.value.stream == name
    assert streams.no_consumers(name)


def test_a_consumer_that_is_deleted_by_another_client_is_replaced(connection: Connection, streams: Streams) -> None:
    name = streams.filled(3000, size=100)

    def action() -> None:
        for consumer in streams.consumers(name):
            streams.connection.request(ConsumerDeleteRequest(name, consumer))

    got, report = gone_while_read(connection, name, action, "consumer")
    assert got == list(range(1, 3001))
    assert (report.missing, report.restarts) == (0, 1)
    streams.info(name)
    read(connection, name, end_sequence=1)
    assert streams.no_consumers(name)
