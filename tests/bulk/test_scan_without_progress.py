"""A server whose answers bring a scan no further: every read ends with a typed error, and soon."""

import json
import time
from collections.abc import Callable, Iterable, Sequence

import pytest
from tests.answering_server import Answer, AnsweringServer, Published, Reply

from jetspark import bulk
from jetspark.bulk import Connection, consumer_source
from jetspark.errors import Error, InvalidReplyError, RequestTimeoutError
from jetspark.jetstream.api import MessageGetRequest, StreamNamesRequest, collect

CREATED = "2026-01-02T03:04:05Z"
LAST = 50


def stream_info() -> bytes:
    config = {"name": "S", "subjects": ["s.>"], "retention": "limits", "storage": "file", "allow_direct": True}
    state = {"messages": LAST, "bytes": 5000, "first_seq": 1, "last_seq": LAST, "consumer_count": 0}
    return json.dumps({"config": config, "created": CREATED, "state": state}).encode()


def consumer_info(name: str, delivered: int = 0, pending: int = LAST) -> bytes:
    state = {"consumer_seq": delivered, "stream_seq": delivered}
    fields = {"stream_name": "S", "name": name, "created": CREATED, "config": {"name": name}}
    return json.dumps({**fields, "delivered": state, "ack_floor": state, "num_pending": pending}).encode()


def stored(reply: str, sequence: int, before: int, pending: int = 10) -> Reply:
    header = (
        f"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.a\r\nNats-Sequence: {sequence}\r\n"
        f"Nats-Time-Stamp: {CREATED}\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {before}\r\n\r\n"
    )
    return Reply(reply, b"x", header.encode())


def end(reply: str, last: int, pending: int) -> Reply:
    lines = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n\r\n"
    return Reply(reply, b"", lines.encode())


def delivery(m: Published, sequence: int, number: int, pending: int = 9) -> Reply:
    """Return a message for a pull: its subject is that of the message, and the reply of the pull chooses the client."""
    return Reply(m.reply, b"x", b"", f"$JS.ACK.S.C.1.{sequence}.{number}.1767323045000000000.{pending}")


Script = Callable[[Published, int], Iterable[Answer]]


def scripted(reads: Script) -> AnsweringServer:
    """Return a server that answers requests for state; `reads` answers reads, with the sequence that is asked for."""

    def answer(m: Published) -> Iterable[Answer]:
        asked = json.loads(m.payload or b"{}")
        words = m.subject.split(".")
        if words[2:4] == ["STREAM", "INFO"]:
            yield m.reply, stream_info()
        elif words[2:4] == ["CONSUMER", "CREATE"]:
            yield m.reply, consumer_info(words[5])
        elif words[2:4] == ["CONSUMER", "INFO"]:
            yield m.reply, consumer_info(words[5], pending=5)
        elif words[2:4] == ["DIRECT", "GET"] and asked.get("batch") == 1:
            yield stored(m.reply, asked.get("seq") or 1, 0)
            yield end(m.reply, asked.get("seq") or 1, 10)
        else:
            yield from reads(m, asked.get("seq") or 1)

    return AnsweringServer(answer)


def scan(connection: Connection, method: str, *, subjects: Sequence[str] = ("s.*",)) -> int:
    batches = bulk.scan(connection, "S", subjects=subjects, read_method=method, timeout=0.3, retry_timeout=0.5)
    return sum(len(batch) for batch in batches)


DIRECT: dict[str, tuple[Script, type[Error]]] = {
    "the sequence goes back in a batch": (
        lambda m, seq: [stored(m.reply, 5, 0), stored(m.reply, 3, 5), end(m.reply, 3, 9)],
        InvalidReplyError,
    ),
    "each batch begins at the first message": (
        lambda m, seq: [stored(m.reply, 1, 0), stored(m.reply, 2, 1), end(m.reply, 2, 9)],
        InvalidReplyError,
    ),
    "the same message again and again": (
        lambda m, seq: [stored(m.reply, 1, 0), *(stored(m.reply, 1, 1) for _ in range(99))],
        InvalidReplyError,
    ),
    "an empty batch promises more": (lambda m, seq: [end(m.reply, 0, 9)], Error),
    "the end of the batch is missing": (
        lambda m, seq: [stored(m.reply, seq, 0)] if seq < 4 else [],
        RequestTimeoutError,
    ),
    "another subject than asked for": (
        lambda m, seq: [Reply(m.reply, b"x", stored(m.reply, seq, 0).header.replace(b"s.a", b"t.a"))],
        InvalidReplyError,
    ),
}


@pytest.mark.parametrize("fault", DIRECT)
def test_a_scan_by_direct_get_ends_with_an_error(fault: str) -> None:
    script, error = DIRECT[fault]
    begin = time.monotonic()
    with scripted(script) as server, bulk.connect(server.url) as connection, pytest.raises(error):
        scan(connection, "direct")
    assert time.monotonic() - begin < 8


def statuses_only(m: Published, sequence: int) -> Iterable[Answer]:
    return [Reply(m.reply, b"", b"NATS/1.0 408 Request Timeout\r\n\r\n")]


def sequences_going_back(m: Published, sequence: int) -> Iterable[Answer]:
    return [delivery(m, 30, 1), delivery(m, 29, 2)]


def one_sequence_for_ever(m: Published, sequence: int) -> Iterable[Answer]:
    return [delivery(m, 1, number) for number in range(1, 100)]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (statuses_only, RequestTimeoutError),
        (sequences_going_back, InvalidReplyError),
        (one_sequence_for_ever, InvalidReplyError),
    ],
)
def test_a_scan_by_a_consumer_ends_with_an_error(
    script: Script, error: type[Error], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_source, "_MAX_CHECK_INTERVAL", 0.25)
    begin = time.monotonic()
    with scripted(script) as server, bulk.connect(server.url) as connection, pytest.raises(error):
        scan(connection, "consumer")
    assert time.monotonic() - begin < 8


def test_a_message_that_was_not_asked_for_is_an_error() -> None:
    message = {"subject": "s.a", "seq": 7, "time": CREATED}
    with (
        AnsweringServer(lambda m: [(m.reply, json.dumps({"message": message}).encode())]) as server,
        bulk.connect(server.url) as connection,
        pytest.raises(InvalidReplyError, match="not asked for: sequence 7"),
    ):
        connection.request(MessageGetRequest("S", 10))


def test_a_list_whose_pages_bring_it_no_further_is_an_error() -> None:
    page = {"total": 10**9, "offset": 0, "limit": 1, "streams": ["A"]}
    pages = collect(StreamNamesRequest())
    with (
        AnsweringServer(lambda m: [(m.reply, json.dumps(page).encode())]) as server,
        bulk.connect(server.url) as connection,
    ):
        second = pages.send(connection.request(next(pages)))
        with pytest.raises(InvalidReplyError, match="begins at entry 0, not at 1"):
            pages.send(connection.request(second))
