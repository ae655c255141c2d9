"""The real server accepts our frames, and both parsers read its frames: headers and statuses (ADR-4)."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
import pyarrow as pa
import pytest
from tests.wire.readers import column_frames

from jetspark.server import NatsServer
from jetspark.wire import frames
from jetspark.wire.errors import BadHeadersError
from jetspark.wire.frames import Err, Frame, MsgFrame, Parser, Ping, Pong
from jetspark.wire.headers import (
    EMPTY_BLOCK,
    Headers,
    HeadersLike,
    Status,
    encode_header_block,
    parse_header_block,
    parse_status,
)
from jetspark.wire.vector import decode
from jetspark.wire.vector.encoder import encode_publishes
from jetspark.wire.vector.headers import HEADERS_TYPE, decode_headers, encode_headers

CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\n'


class Echo:
    """A blocking connection that keeps every byte it receives."""

    def __init__(self, server: NatsServer) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=10)
        self._parser = Parser()
        self.received = b""
        self.send(CONNECT)
        self._sids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def send(self, data: bytes | memoryview) -> None:
        self._socket.sendall(data)

    def subscribe(self, subject: bytes) -> int:
        self._sids += 1
        self.send(frames.sub(subject, self._sids))
        return self._sids

    def messages(self) -> list[MsgFrame]:
        """Send a PING and collect everything before the answer."""
        self.send(frames.PING)
        found: list[MsgFrame] = []
        while True:
            for frame in self._more():
                if isinstance(frame, Pong):
                    return found
                if isinstance(frame, MsgFrame):
                    found.append(frame)

    def next_message(self) -> MsgFrame:
        """Wait for one message; no other may follow it immediately."""
        while not (found := [frame for frame in self._more() if isinstance(frame, MsgFrame)]):
            pass
        assert len(found) == 1
        return found[0]

    def _more(self) -> Iterator[Frame]:
        data = self._socket.recv(1 << 16)
        assert data, "the server closed the connection"
        self.received += data
        for frame in self._parser.feed(data):
            assert not isinstance(frame, Err), frame
            if isinstance(frame, Ping):
                self.send(frames.PONG)
            yield frame

    def request(self, subject: str, body: object) -> dict[str, object]:
        """Ask the JetStream API and return the JSON of its answer."""
        inbox = b"_INBOX.api.%d" % self.subscribe(b"_INBOX.api.*")
        self.send(frames.pub(subject.encode(), json.dumps(body).encode(), reply=inbox))
        answer = json.loads(self.next_message().payload)
        self.send(frames.unsub(self._sids))
        assert isinstance(answer, dict)
        assert "error" not in answer, answer
        return answer


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@pytest.fixture
def echo(server: NatsServer) -> Iterator[Echo]:
    with Echo(server) as connection:
        yield connection


Publisher = Callable[[Echo, list[tuple[HeadersLike | None, bytes]]], None]


def publish_one_by_one(echo: Echo, messages: list[tuple[HeadersLike | None, bytes]]) -> None:
    for headers, payload in messages:
        echo.send(frames.pub(b"echo.a", payload, header=b"" if headers is None else encode_header_block(headers)))


def publish_as_a_batch(echo: Echo, messages: list[tuple[HeadersLike | None, bytes]]) -> None:
    rows = [None if headers is None else list(Headers(headers).to_dict().items()) for headers, _ in messages]
    subjects, replies = [pa.array([value] * len(rows), pa.binary()) for value in (b"echo.a", b"")]
    payloads = pa.array([payload for _, payload in messages], pa.binary())
    batch = encode_publishes(subjects, replies, payloads, encode_headers(pa.array(rows, HEADERS_TYPE)))
    echo.send(memoryview(batch.buffers()[2]))


publishers = pytest.mark.parametrize("publish", [publish_one_by_one, publish_as_a_batch])


def assert_columns_say_the_same(received: bytes) -> None:
    """The vectorised decoder and the scalar parser agree on all received bytes, including headers."""
    table = decode(pa.py_buffer(received))
    parser = Parser()
    found = list(parser.feed(received))
    assert column_frames(table) == found
    # The bytes may end within a PING or INFO of the server.
    assert table.consumed == len(received) - len(parser.unread)
    assert parser.unread[:4] in {b"PING"[: len(parser.unread)], b"INFO"[: len(parser.unread)]}
    messages = [frame for frame in found if isinstance(frame, MsgFrame)]
    blocks = pa.array([message.header for message in messages], pa.binary())
    rows = decode_headers(blocks, np.array([bool(message.header) for message in messages], np.bool_)).to_pylist()
    expected = [
        list(parse_header_block(message.header).to_dict().items()) if message.header else None for message in messages
    ]
    assert rows == expected


@pytest.mark.conformance("WIR-02")
@publishers
def test_headers_and_payloads_of_any_size_are_read_back(echo: Echo, publish: Publisher) -> None:
    sid = echo.subscribe(b"echo.>")
    large = {f"Key-{number}": "v" * 95 for number in range(300)}
    sent: list[tuple[HeadersLike | None, bytes]] = [
        ({"A": "1"}, b""),
        ({"A": "1"}, b"x"),
        ({"A": ""}, b"\r\nMSG a 1 3\r\nabc\r\n"),
        (large, b""),
        (large, b"y" * 100_000),
        (None, b""),
        (None, b"\r\n"),
    ]
    assert len(encode_header_block(large)) > 30_000
    publish(echo, sent)
    received = echo.messages()
    assert [(message.subject, message.sid, message.reply) for message in received] == [(b"echo.a", sid, b"")] * len(
        sent
    )
    for message, (headers, payload) in zip(received, sent, strict=True):
        assert message.payload == payload
        assert message.header == (b"" if headers is None else encode_header_block(headers))
        assert headers is None or parse_header_block(message.header) == headers
    assert_columns_say_the_same(echo.received)


def test_an_empty_header_block_is_read_back(echo: Echo) -> None:
    echo.subscribe(b"echo.>")
    echo.send(frames.pub(b"echo.a", b"", header=EMPTY_BLOCK))
    assert [(message.header, message.payload) for message in echo.messages()] == [(EMPTY_BLOCK, b"")]


@pytest.mark.conformance("WIR-03")
def test_a_status_is_read_with_and_without_its_description(echo: Echo, server: NatsServer) -> None:
    echo.subscribe(b"_INBOX.status")
    echo.send(frames.pub(b"nobody.listens", b"", reply=b"_INBOX.status"))
    bare = echo.next_message()
    assert bare.header.startswith(b"NATS/1.0 503\r\n")
    assert parse_status(bare.header) == Status(503)
    assert "503" not in parse_header_block(bare.header).to_dict()

    echo.request("$JS.API.STREAM.CREATE.STATUS", {"name": "STATUS", "subjects": ["status.>"], "allow_direct": True})
    echo.send(frames.pub(b"$JS.API.DIRECT.GET.STATUS", b'{"seq":7}', reply=b"_INBOX.status"))
    described = echo.next_message()
    assert parse_status(described.header) == Status(404, "Message Not Found")
    assert parse_header_block(described.header) == {}

    # With headers, like a heartbeat: a status does not hide them, nor they it.
    echo.send(frames.pub(b"_INBOX.status", b"", header=b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Stream: 7\r\n\r\n"))
    both = echo.next_message()
    assert parse_status(both.header) == Status(100, "Idle Heartbeat")
    assert parse_header_block(both.header) == {"Nats-Last-Stream": "7"}
    assert_columns_say_the_same(echo.received)


@pytest.mark.conformance("WIR-04")
@publishers
def test_keys_keep_their_case_their_order_and_all_of_their_values(echo: Echo, publish: Publisher) -> None:
    echo.subscribe(b"echo.>")
    publish(echo, [([("A", "1"), ("a", "2"), ("A", "3")], b"x"), ({"Blank": " \t both ends \t"}, b"y")])
    first, second = echo.messages()
    headers = parse_header_block(first.header)
    assert list(headers.items()) == [("A", "1"), ("A", "3"), ("a", "2")]
    assert headers["A"] == headers.get("A") == "1"
    assert headers.get_all("A") == ["1", "3"]
    assert headers.get_all("a") == ["2"]
    assert parse_header_block(second.header) == {"Blank": "both ends"}
    assert_columns_say_the_same(echo.received)


@pytest.mark.conformance("WIR-05")
@publishers
@pytest.mark.parametrize("pair", [("a b", "1"), ("", "1"), ("a:", "1"), ("\u00e9", "1"), ("a", "x\r\ny"), ("a", "\n")])
def test_invalid_headers_are_refused_before_anything_is_sent(
    echo: Echo, publish: Publisher, pair: tuple[str, str]
) -> None:
    echo.subscribe(b">")
    with pytest.raises(BadHeadersError):
        publish(echo, [([pair], b"x")])
    assert echo.messages() == []
    publish(echo, [({"a": "1"}, b"x")])
    assert [message.payload for message in echo.messages()] == [b"x"]


def test_a_stored_message_with_the_header_names_of_a_status_arrives_as_data(echo: Echo) -> None:
    """WIR-06 at this level: a status is a code on the version line, whatever the headers contain."""
    echo.request("$JS.API.STREAM.CREATE.DATA", {"name": "DATA", "subjects": ["data.>"]})
    for extra in ({}, {"headers_only": True}):
        config = {"durable_name": f"c{len(extra)}", "ack_policy": "none", **extra}
        echo.request(f"$JS.API.CONSUMER.CREATE.DATA.c{len(extra)}", {"stream_name": "DATA", "config": config})
    echo.subscribe(b"_INBOX.data")
    like_a_status = encode_header_block({"Status": "404", "Description": "hi"})
    echo.send(frames.pub(b"data.a", b"", reply=b"_INBOX.data", header=like_a_status))
    assert json.loads(echo.next_message().payload) == {"stream": "DATA", "seq": 1}

    # The consumers may see the message later than we do, so they get time.
    pull = b'{"batch":1,"expires":10000000000}'
    echo.send(frames.pub(b"$JS.API.CONSUMER.MSG.NEXT.DATA.c0", pull, reply=b"_INBOX.data"))
    data = echo.next_message()
    assert (data.subject, data.header, data.payload) == (b"data.a", like_a_status, b"")
    assert parse_status(data.header) is None
    assert parse_header_block(data.header) == {"Status": "404", "Description": "hi"}

    echo.send(frames.pub(b"$JS.API.CONSUMER.MSG.NEXT.DATA.c1", pull, reply=b"_INBOX.data"))
    bare = echo.next_message()
    assert (bare.subject, bare.payload) == (b"data.a", b"")
    assert parse_status(bare.header) is None
    assert parse_header_block(bare.header).get("Nats-Msg-Size") == "0"

    pull = b'{"batch":1,"no_wait":true}'
    echo.send(frames.pub(b"$JS.API.CONSUMER.MSG.NEXT.DATA.c0", pull, reply=b"_INBOX.data"))
    nothing = echo.next_message()
    assert (nothing.subject, nothing.payload) == (b"_INBOX.data", b"")
    assert parse_status(nothing.header) == Status(404, "No Messages")
