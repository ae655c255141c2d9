"""A server that sends without an end, byte by byte, or reads nothing: every call ends at its deadline.

A real server cannot be made to do that, so a thread with a raw socket does.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pytest
from tests.flood_server import ANSWERS, DRIPS, FLOOD_TIME, FLOODS, LIMIT, ends_in_time, serving

from jetspark import bulk
from jetspark.bulk import Connection, receive_buffer
from jetspark.bulk.open_session import send_all
from jetspark.errors import ConnectError, DisconnectedError, Error, ProtocolError
from jetspark.jetstream.api import StreamInfoRequest


def read(connection: Connection) -> None:
    until = time.monotonic() + LIMIT
    while connection.read(until) is not None and time.monotonic() < until:
        pass


def request(connection: Connection) -> None:
    connection.request(StreamInfoRequest("S"), timeout=LIMIT)


def request_message(connection: Connection) -> None:
    assert connection.request_message("a", b"", LIMIT) is None


def fetch(connection: Connection) -> None:
    with bulk.fetch(connection, "S", "c", max_messages=5, timeout=LIMIT, columns=["data"]) as batches:
        list(batches)


def scan(connection: Connection) -> None:
    with bulk.scan(connection, "S", timeout=LIMIT, retry_timeout=0, columns=["data"]) as batches:
        list(batches)


def scan_by_direct_get(connection: Connection) -> None:
    with bulk.scan(connection, "S", timeout=LIMIT, retry_timeout=0, read_method="direct") as batches:
        list(batches)


def last_per_subject(connection: Connection) -> None:
    bulk.last_per_subject(connection, "S", timeout=LIMIT, retry_timeout=0)


def first_sequence_at(connection: Connection) -> None:
    bulk.first_sequence_at(connection, "S", 0, timeout=LIMIT)


ROWS: Final = pa.record_batch({"data": [b"x"] * 3})


def publish(connection: Connection) -> None:
    bulk.publish(connection, ROWS, subject="s", ack_timeout=LIMIT)


def publish_atomic(connection: Connection) -> None:
    bulk.publish_atomic(connection, ROWS, subject="s", ack_timeout=LIMIT)


CALLS: Final[tuple[Callable[[Connection], None], ...]] = (
    request_message,
    fetch,
    scan,
    scan_by_direct_get,
    last_per_subject,
    first_sequence_at,
    publish,
    publish_atomic,
)


@pytest.mark.parametrize("call", [read, request])
@pytest.mark.parametrize("sent", [*FLOODS.values(), *DRIPS.values()], ids=[*FLOODS, *DRIPS])
def test_a_call_ends_at_its_deadline_whatever_the_server_sends(sent: bytes, call: Callable[[Connection], None]) -> None:
    with serving(sent, drip=sent in DRIPS.values()) as server, bulk.connect(server.url) as connection:
        server.flooding.set()
        with ends_in_time(), suppress(Error):
            call(connection)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("flood", ["PING", "messages for nobody", "messages of the first subscription"])
def test_every_call_ends_at_its_deadline_while_the_server_sends(flood: str, call: Callable[[Connection], None]) -> None:
    with serving(FLOODS[flood]) as server, bulk.connect(server.url) as connection:
        server.flooding.set()
        with ends_in_time(), suppress(Error):
            call(connection)


@pytest.mark.parametrize("flood", [name for name in FLOODS if name != "PONG"])
def test_connecting_ends_at_its_deadline_while_the_server_sends(flood: str) -> None:
    with serving(FLOODS[flood]) as server:
        server.flooding.set()
        with ends_in_time(), pytest.raises((ConnectError, ProtocolError)) as caught:
            bulk.connect(server.url, connect_timeout=LIMIT)
    assert server.url in str(caught.value)


@pytest.mark.parametrize("drip", DRIPS)
def test_connecting_ends_at_its_deadline_while_the_server_sends_byte_by_byte(drip: str) -> None:
    with serving(DRIPS[drip], drip=True) as server:
        server.flooding.set()
        with ends_in_time(), pytest.raises((ConnectError, ProtocolError)):
            bulk.connect(server.url, connect_timeout=LIMIT)


@pytest.mark.parametrize("call", [scan, scan_by_direct_get, last_per_subject, first_sequence_at])
@pytest.mark.parametrize("flood", ["PING", "messages for nobody", "messages on the inbox of requests"])
def test_a_read_ends_when_a_flood_comes_instead_of_its_messages(flood: str, call: Callable[[Connection], None]) -> None:
    with serving(FLOODS[flood], answers=ANSWERS) as server, bulk.connect(server.url) as connection:
        threading.Timer(LIMIT / 2, server.flooding.set).start()
        with ends_in_time(), suppress(Error):
            call(connection)
        server.flooding.set()


def test_a_server_that_sends_pings_and_reads_nothing_delays_no_call_and_gets_few_answers() -> None:
    with serving(FLOODS["PING"], deaf=True) as server, bulk.connect(server.url) as connection:
        server.flooding.set()
        with ends_in_time():
            read(connection)
        with ends_in_time(), suppress(Error):
            request(connection)


def test_sending_to_a_server_that_reads_nothing_ends_at_the_deadline() -> None:
    with serving(b"", deaf=True) as server, bulk.connect(server.url) as connection:
        with ends_in_time(), pytest.raises(DisconnectedError, match="while sending"):
            connection.send(b"x" * (64 << 20), time.monotonic() + LIMIT)
        assert connection.closed


def test_sending_to_a_server_that_reads_slowly_ends_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    reading = threading.Thread(target=_read_slowly, args=(theirs,), daemon=True)
    with ours, theirs:
        reading.start()
        with ends_in_time(), pytest.raises(TimeoutError):
            send_all(ours, b"x" * (64 << 20), time.monotonic() + LIMIT)
        ours.shutdown(socket.SHUT_RDWR)
        reading.join(10)


def _read_slowly(opened: socket.socket) -> None:
    with suppress(OSError):
        while opened.recv(1 << 16):
            time.sleep(0.01)


def test_a_name_look_up_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, look_up = threading.Event(), socket.getaddrinfo

    def silent(host: str, port: int, *, type: int, flags: int = 0) -> object:  # noqa: A002 - its name
        if not flags:
            asked.wait(FLOOD_TIME)
        return look_up(host, port, type=type, flags=flags)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    with ends_in_time(), pytest.raises(ConnectError, match=r"nats://nowhere\.invalid:4222"):
        bulk.connect("nowhere.invalid", connect_timeout=LIMIT)
    asked.set()


def test_a_flood_for_an_open_subscription_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_buffer, "_MAX_UNREAD", 1 << 20)
    with serving(FLOODS["messages of the first subscription"]) as server, bulk.connect(server.url) as connection:
        assert connection.subscribe("a") == 2
        server.flooding.set()
        with pytest.raises(DisconnectedError, match="more than 1048576 bytes of messages"):
            connection.request(StreamInfoRequest("S"), timeout=FLOOD_TIME)
        assert connection.closed
