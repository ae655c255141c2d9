"""Answers that are broken in any way fail their call with an error of the library, and the connection stays usable."""

import socket
import threading
import time
from collections.abc import Iterable

import pytest
from tests.answering_server import Answer, AnsweringServer, Published
from tests.bulk.streams import rows

from jetspark import bulk
from jetspark.errors import InvalidAckError, InvalidReplyError, ProtocolError
from jetspark.jetstream.api import StreamDeleteRequest, StreamInfoRequest

BROKEN = {
    "nested deeply": b'{"x":' * 100_000,
    "not UTF-8": b'{"stream": "\xff", "seq": 1}',
    "thousands of digits": b'{"stream": "S", "seq": ' + b"9" * 5000 + b"}",
    "over 64 bits": b'{"stream": "S", "seq": 18446744073709551616}',
    "zeros in front": b'{"stream": "S", "seq": 007}',
    "a list": b"[]",
    "a lone surrogate": b'{"stream": "\\ud800", "seq": 1}',
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_of_the_api_fails_its_request_only(answer: bytes) -> None:
    answers = [answer, b'{"success": true}']
    with AnsweringServer(lambda m: [(m.reply, answers[m.number])]) as server, bulk.connect(server.url) as connection:
        with pytest.raises(InvalidReplyError) as caught:
            connection.request(StreamInfoRequest("S"))
        assert len(str(caught.value)) < 1000
        connection.request(StreamDeleteRequest("S"))


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_acknowledgement_is_a_refusal_of_its_row(answer: bytes) -> None:
    def answers(m: Published) -> Iterable[Answer]:
        return [(m.reply, answer if m.number == 2 else b'{"stream":"S", "seq":%d}' % (m.number + 1))]

    with AnsweringServer(answers) as server, bulk.connect(server.url) as connection:
        with pytest.raises(bulk.PublishRefusedError, match="row 2") as caught:
            bulk.publish(connection, rows("orders", [b"x"] * 4), ack_timeout=2)
        assert isinstance(caught.value.error, InvalidAckError)
        assert not connection.closed


@pytest.mark.parametrize(
    "info", [b'{"x":' * 100_000, b'{"max_payload":' + b"9" * 5000 + b"}", b"[]", b'{"host":"\xff"}']
)
def test_a_broken_info_ends_the_session(info: bytes) -> None:
    good = b'INFO {"server_id":"S","version":"2.14.0","headers":true,"max_payload":1048576}\r\n'

    def serve() -> None:
        with listener.accept()[0] as client:
            client.sendall(good)
            while b"SUB" not in (line := client.recv(1 << 16)):
                client.sendall(b"PONG\r\n" * line.count(b"PING"))
            client.sendall(b"INFO " + info + b"\r\n")
            client.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        connection = bulk.connect(f"nats://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ProtocolError, match=r"127\.0\.0\.1.*INFO"):
            connection.read(time.monotonic() + 5)
        assert connection.closed
        thread.join(5)
