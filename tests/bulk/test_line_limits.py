"""Subjects that make a control line longer than the server accepts: refused before they are sent, with the row."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from jetspark import bulk
from jetspark.bulk import Connection, PublishRefusedError
from jetspark.errors import BadSubjectError, Error, MaxControlLineError, MaxSubscriptionsError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest
from jetspark.server import NatsServer


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config={"max_control_line": 600, "max_subscriptions": 3}) as running:
        with bulk.connect(running.url) as connection:
            connection.request(StreamCreateRequest(StreamConfig("S", subjects=["s.>"], allow_atomic=True)))
        yield running


def rows(*subjects: str) -> pa.RecordBatch:
    return pa.record_batch({"subject": list(subjects), "data": [b"x"] * len(subjects)})


def stored(connection: Connection) -> int:
    return connection.request(StreamInfoRequest("S")).state.messages


def total(server: NatsServer) -> int:
    count = server.monitor("/varz")["total_connections"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("publish", [bulk.publish, bulk.publish_atomic])
def test_a_row_with_a_long_subject_is_refused_before_anything_is_sent(
    connection: Connection, publish: Callable[..., object]
) -> None:
    before = stored(connection)
    with pytest.raises(MaxControlLineError, match=r"^row 1 \(subject 's\.xxx") as refused:
        publish(connection, rows("s.a", "s." + "x" * 5000, "s.b"))
    assert len(str(refused.value)) < 500
    assert stored(connection) == before
    with pytest.raises(MaxControlLineError):
        publish(connection, pa.record_batch({"data": [b"x"]}), subject="s." + "x" * 5000)


def test_a_long_subject_counts_with_its_bytes(connection: Connection) -> None:
    with pytest.raises(MaxControlLineError):
        bulk.publish(connection, rows("s." + "\u00fc" * 2040))


@pytest.mark.parametrize(("publish", "after"), [(bulk.publish, 1), (bulk.publish, 3000), (bulk.publish_atomic, 1)])
def test_a_server_with_a_lower_limit_names_the_row_and_is_not_asked_again(
    server: NatsServer, publish: Callable[..., object], after: int
) -> None:
    with bulk.connect(server.url) as connection:
        before = total(server)
        with pytest.raises(PublishRefusedError, match="row 1, ") as refused:
            publish(connection, rows("s.a", "s." + "x" * 700, *["s.b"] * after), retry_timeout=60)
        assert isinstance(refused.value.error, MaxControlLineError)
        assert total(server) <= before + 1


def test_a_lower_limit_can_be_given(server: NatsServer) -> None:
    with bulk.connect(server.url, max_control_line=600) as connection:
        with pytest.raises(MaxControlLineError, match="row 0"):
            bulk.publish(connection, rows("s." + "x" * 700))
        with pytest.raises(MaxControlLineError):
            connection.subscribe("a" * 600)
        with pytest.raises(MaxControlLineError):
            connection.publish("a" * 600, b"")
        with pytest.raises(MaxControlLineError):
            connection.request_message("a" * 600, b"", 1.0)
        assert stored(connection) >= 0


@pytest.mark.parametrize("subject", ["a b", "a\r\nPUB b 0", "a..b", "", "a\udcff"], ids=ascii)
def test_a_subject_that_would_break_the_protocol_is_not_sent(connection: Connection, subject: str) -> None:
    with pytest.raises(BadSubjectError):
        connection.subscribe(subject)
    with pytest.raises(BadSubjectError):
        connection.publish(subject, b"")
    with pytest.raises(BadSubjectError):
        connection.request_message(subject, b"", 1.0)
    assert stored(connection) >= 0


def test_too_many_subscriptions_are_an_error_of_the_call(server: NatsServer) -> None:
    with bulk.connect(server.url) as connection:
        for _ in range(3):
            connection.subscribe("a")
        with pytest.raises(MaxSubscriptionsError, match="max_subscriptions"):
            stored(connection)


@contextlib.contextmanager
def dropping() -> Iterator[tuple[str, list[float]]]:
    """Start a server that accepts every client, and drops it."""
    accepted: list[float] = []
    info = b'INFO {"server_id":"X","version":"2.15.0","headers":true,"max_payload":1048576}\r\n'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    accepted.append(time.monotonic())
                    with client, client.makefile("rb") as lines:
                        client.sendall(info)
                        while (line := lines.readline()) and line != b"PING\r\n":
                            pass
                        client.sendall(b"PONG\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}", accepted
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_server_that_accepts_and_drops_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("jetspark.bulk.connection.time.sleep", waits.append)
    with dropping() as (url, accepted):
        connection = bulk.connect(url)
        for _ in range(8):
            with pytest.raises(Error):
                stored(connection)
            connection.reconnect()
        connection.close()
        assert len(accepted) == 9
    assert waits == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
