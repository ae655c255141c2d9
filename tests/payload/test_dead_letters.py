"""Which rows are dead letters, and what is published for each."""

import pytest

from jetspark.errors import (
    BadHeadersError,
    BadSubjectError,
    Error,
    InsufficientResourcesError,
    MaxControlLineError,
    MaxPayloadError,
    NoStreamResponseError,
    PayloadError,
    PublishTimeoutError,
)
from jetspark.jetstream.errors import api_error
from jetspark.payload.dead_letters import DeadLetter, dead_letter_id, is_refused_for_good, letter_message

BAD_ROWS = [
    BadSubjectError("a b"),
    MaxControlLineError("long", size=5000, limit=4096),
    BadHeadersError("a header"),
    MaxPayloadError("large", size=2, limit=1),
    PayloadError("column total: not a number"),
    *(api_error(400, number) for number in (10054, 10097, 10060, 10165, 10166, 10111, 10168, 10189, 10185)),
]
"""The row alone is at fault."""
BAD_MOMENTS = [
    NoStreamResponseError("no stream"),
    PublishTimeoutError("nothing came"),
    InsufficientResourcesError(503, 10023),
    *(api_error(503, number) for number in (10008, 10077, 10109, 10118, 10039, 10167)),
    *(api_error(400, number) for number in (10070, 10071, 10164)),  # the row's first copy may have caused them
]
"""The stream cannot store now, or a condition is not met."""


@pytest.mark.parametrize("error", BAD_ROWS, ids=lambda each: f"{type(each).__name__}-{getattr(each, 'err_code', '')}")
def test_a_row_that_alone_is_at_fault_is_a_dead_letter(error: Error) -> None:
    assert is_refused_for_good(error)


@pytest.mark.parametrize(
    "error", BAD_MOMENTS, ids=lambda each: f"{type(each).__name__}-{getattr(each, 'err_code', '')}"
)
def test_a_row_that_may_be_stored_later_is_no_dead_letter(error: Error) -> None:
    assert not is_refused_for_good(error)


def test_a_dead_letter_names_its_origin() -> None:
    letter = DeadLetter("row 3: no number", "orders.de", b"{]", [("trace", "7")], "ORDERS", 17, "order-17")
    payload, headers = letter_message(letter, "query-1", 1 << 20)
    assert payload == b"{]"
    assert headers == [
        ("trace", "7"),
        ("Jetspark-Stream", "ORDERS"),
        ("Jetspark-Sequence", "17"),
        ("Jetspark-Subject", "orders.de"),
        ("Jetspark-Error", "row 3: no number"),
        ("Jetspark-Query", "query-1"),
        ("Jetspark-Msg-Id", "order-17"),
    ]


def test_an_unknown_origin_has_no_header() -> None:
    _, headers = letter_message(DeadLetter("the subject is null", None, b""), "job", 1 << 20)
    assert headers == [("Jetspark-Error", "the subject is null"), ("Jetspark-Query", "job")]


def test_headers_that_command_the_server_are_left_out() -> None:
    own = [("Nats-Msg-Id", "1"), ("Nats-Expected-Stream", "A"), ("Nats-TTL", "1s"), ("Nats-Rollup", "all"), ("k", "v")]
    _, headers = letter_message(DeadLetter("x", "a", b"", own), "job", 1 << 20)
    assert [name for name, _ in headers] == ["k", "Jetspark-Subject", "Jetspark-Error", "Jetspark-Query"]


def test_a_dead_letter_that_is_bad_again_has_the_newest_reason_only() -> None:
    own = [("Jetspark-Error", "old"), ("Jetspark-Sequence", "1")]
    _, headers = letter_message(DeadLetter("new", "a", b"", own, "DEAD", 5), "job", 1 << 20)
    assert [value for name, value in headers if name in {"Jetspark-Error", "Jetspark-Sequence"}] == ["5", "new"]


def test_headers_that_no_message_can_have_are_counted() -> None:
    own = [("a b", "1"), ("c", "x\r\nNats-Rollup: all"), ("d", None), ("", "e"), ("ok", "ä")]
    _, headers = letter_message(DeadLetter("x", "a", b"", own), "job", 1 << 20)
    assert ("ok", "ä") in headers
    assert ("Jetspark-Headers-Left-Out", "4") in headers


@pytest.mark.parametrize("text", ["a\r\nNats-Rollup: all", "a\x00b", "\x1b[31m", "a\u2028b", "\ud800"])
def test_the_values_of_headers_are_one_line(text: str) -> None:
    _, headers = letter_message(DeadLetter(text, text, b"", (), text, 1, text), text, 1 << 20)
    for name, value in headers:
        assert value.isprintable(), name
        value.encode()


def test_the_values_of_headers_are_bounded() -> None:
    long = "ä" * 100_000
    _, headers = letter_message(DeadLetter(long, long, b"", (), long, 1, long), long, 1 << 20)
    assert sum(len(value.encode()) for _, value in headers) < 12_000


@pytest.mark.parametrize("size", [900, 1_000, 5_000, 1 << 20])
def test_a_payload_that_does_not_fit_is_cut_and_its_size_named(size: int) -> None:
    payload, headers = letter_message(DeadLetter("too large", "a", b"x" * size, [("k", "v" * 9_000)]), "job", 1_000)
    assert len(payload) + sum(len(name) + len(value) + 4 for name, value in headers) < 1_000
    assert ("Jetspark-Payload-Size", str(size)) in headers
    assert ("Jetspark-Headers-Left-Out", "1") in headers


def test_a_payload_that_fits_is_whole() -> None:
    payload, headers = letter_message(DeadLetter("bad", "a", bytes(1 << 20)), "job", (1 << 20) + 2_000)
    assert payload == bytes(1 << 20)
    assert not [name for name, _ in headers if name == "Jetspark-Payload-Size"]


def test_ids_name_the_origin_and_differ_by_query_and_stream() -> None:
    one = dead_letter_id("ORDERS-17", "read", "query-1", "1700000000")
    assert one == dead_letter_id("ORDERS-17", "read", "query-1", "1700000000")
    assert one.startswith("ORDERS-17-")
    others = {
        dead_letter_id("ORDERS-18", "read", "query-1", "1700000000"),
        dead_letter_id("ORDERS-17", "read", "query-2", "1700000000"),
        dead_letter_id("ORDERS-17", "read", "query-1", "1700000001"),
        dead_letter_id("ORDERS-17", "write", "query-1", "1700000000"),
        one,
    }
    assert len(others) == 5


@pytest.mark.parametrize("origin", ["a\r\nb", "x" * 300, "\ud800"])
def test_an_origin_that_cannot_be_in_a_header_is_hashed(origin: str) -> None:
    made = dead_letter_id(origin, "write", "query")
    assert len(made) == 16
    assert made != dead_letter_id(origin + "x", "write", "query")
