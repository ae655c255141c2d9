"""How many bytes a connection waits for before it returns the received messages."""

from __future__ import annotations

import socket
import time

import pytest
from tests.bulk.proxy import Proxy

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.errors import DisconnectedError
from jetspark.server import NatsServer

MUCH = 1 << 19
LONG = 30.0


def payloads(connection: Connection, sid: int, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        table = connection.read(time.monotonic() + LONG, target_bytes=MUCH)
        assert table is not None
        assert set(table.lines.sid.tolist()) == {sid}
        found.extend(table.message(row).payload for row in range(len(table)))
    return found


def test_fewer_messages_than_the_target_are_returned_when_no_more_arrive(server: NatsServer) -> None:
    with bulk.connect(server.url) as connection, bulk.connect(server.url) as other:
        sid = connection.subscribe("few")
        connection.publish("few", b"first")
        assert payloads(connection, sid, 1) == [b"first"]
        for number in range(3):
            begin = time.monotonic()
            other.publish("few", b"%d" % number)
            assert payloads(connection, sid, 1) == [b"%d" % number]
            assert time.monotonic() - begin < LONG / 2


def test_a_trickle_of_messages_is_returned_while_it_continues(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message arrives before the silence is long enough to end the collecting."""
    with bulk.connect(server.url) as connection, bulk.connect(server.url) as other:
        sid = connection.subscribe("trickle")
        connection.publish("trickle", b"known")
        assert payloads(connection, sid, 1) == [b"known"]
        received = connection._received
        receive = received._receive

        def something(opened: socket.socket, deadline: float) -> int:
            other.publish("trickle", b"drop")
            return receive(opened, time.monotonic() + LONG)

        assert connection._socket is not None
        received._set_low_watermark(connection._socket, 1)
        monkeypatch.setattr(received, "_set_low_watermark", lambda opened, size: None)  # for every message
        monkeypatch.setattr(received, "_receive", something)
        table = connection.read(time.monotonic() + LONG, target_bytes=MUCH)
        assert table is not None
        assert len(table) < MUCH // 100  # the messages of 20 ms; without a time limit it would be `enough` of them


def test_a_read_without_a_byte_ends_at_its_deadline(server: NatsServer) -> None:
    with bulk.connect(server.url) as connection:
        connection.subscribe("none")
        begin = time.monotonic()
        assert connection.read(begin + 0.05, target_bytes=MUCH) is None
        assert connection.read(begin, target_bytes=MUCH) is None
        assert time.monotonic() - begin < LONG / 2


def test_a_single_message_is_read_at_once_after_many_were_collected(server: NatsServer) -> None:
    with bulk.connect(server.url) as connection, bulk.connect(server.url) as other:
        sid = connection.subscribe("many")
        connection.publish("many", b"known")
        assert payloads(connection, sid, 1) == [b"known"]
        for _ in range(40):
            other.publish("many", b"x" * 50_000)
        assert payloads(connection, sid, 40) == [b"x" * 50_000] * 40
        other.publish("many", b"last")
        table = connection.read(time.monotonic() + LONG)
        assert table is not None
        assert table.message(0).payload == b"last"


def test_a_connection_that_is_cut_during_collecting_reports_it_at_once(server: NatsServer) -> None:
    with Proxy(server) as proxy, bulk.connect(proxy.url) as connection:
        sid = connection.subscribe("cut")
        connection.publish("cut", b"known")
        assert payloads(connection, sid, 1) == [b"known"]
        proxy.cut()
        begin = time.monotonic()
        with pytest.raises(DisconnectedError):
            connection.read(time.monotonic() + LONG, target_bytes=MUCH)
        assert time.monotonic() - begin < LONG / 2
