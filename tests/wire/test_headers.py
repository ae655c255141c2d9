"""Header blocks one at a time: encoded strictly, parsed leniently (ADR-4)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetspark.wire.errors import BadHeadersError
from jetspark.wire.headers import EMPTY_BLOCK, Headers, Status, encode_header_block, parse_header_block, parse_status

steady = settings(derandomize=True, max_examples=60)

keys = st.text(st.sampled_from([chr(code) for code in range(33, 127) if chr(code) != ":"]), min_size=1, max_size=8)
values = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
pairs = st.lists(st.tuples(st.one_of(st.sampled_from(["A", "a"]), keys), values), max_size=6)


@steady
@given(pairs)
def test_written_headers_are_read_back_without_blanks_around_values(sent: list[tuple[str, str]]) -> None:
    block = encode_header_block(sent)
    assert block.startswith(b"NATS/1.0\r\n")
    assert block.endswith(b"\r\n\r\n")
    assert parse_status(block) is None
    assert parse_header_block(block) == Headers((key, value.strip(" \t")) for key, value in sent)


@steady
@given(pairs)
def test_every_type_of_headers_is_encoded_alike(sent: list[tuple[str, str]]) -> None:
    headers = Headers(sent)
    block = encode_header_block(headers)
    assert (
        encode_header_block(headers.to_dict())
        == encode_header_block(list(headers.items()))
        == encode_header_block(headers.copy())
        == block
    )


@steady
@given(st.binary(max_size=60))
def test_any_bytes_are_read_without_an_error(block: bytes) -> None:
    parse_header_block(block)
    parse_status(block)
    parse_header_block(b"NATS/1.0\r\n" + block)
    parse_status(b"NATS/1.0" + block)


def test_empty_headers_are_a_version_line_and_an_empty_line() -> None:
    assert encode_header_block({}) == EMPTY_BLOCK == b"NATS/1.0\r\n\r\n"
    assert parse_header_block(EMPTY_BLOCK) == {}


# -- status --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"NATS/1.0", None),
        (b"NATS/1.0 ", None),
        (b"NATS/1.0 503", Status(503)),
        (b"NATS/1.0 503 ", Status(503)),
        (b"NATS/1.0  503", Status(503)),
        (b"NATS/1.0 404 No Messages", Status(404, "No Messages")),
        (b"NATS/1.0 100 FlowControl Request", Status(100, "FlowControl Request")),
        (b"NATS/1.0 409  Message Size Exceeds MaxBytes ", Status(409, "Message Size Exceeds MaxBytes")),
        (b"NATS/1.0 409 \xff", Status(409, "\ufffd")),
        (b"NATS/1.0 40", None),
        (b"NATS/1.0 4040 x", None),
        (b"NATS/1.0 x04", None),
        (b"NATS/1.0 \xb2\xb2\xb2", None),
        (b"HTTP/1.1 404 Not Found", None),
        (b"", None),
    ],
)
def test_a_status_is_read_from_the_version_line(line: bytes, status: Status | None) -> None:
    for block in (line, line + b"\r\n\r\n", line + b"\r\nStatus: 999\r\n\r\n"):
        assert parse_status(block) == status
        assert parse_status(memoryview(block)) == status


def test_a_status_is_separate_from_the_headers() -> None:
    block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 5\r\nNats-Last-Stream: 9\r\n\r\n"
    assert parse_status(block) == Status(100, "Idle Heartbeat")
    assert parse_header_block(block) == {"Nats-Last-Consumer": "5", "Nats-Last-Stream": "9"}


def test_headers_with_the_names_of_a_status_are_headers() -> None:
    block = encode_header_block({"Status": "404", "Description": "hi"})
    assert parse_status(block) is None
    assert parse_header_block(block) == {"Status": "404", "Description": "hi"}


def test_statuses_compare_by_code_and_description() -> None:
    assert Status(404, "a") == Status(404, "a")
    assert len({Status(404, "a"), Status(404, "a"), Status(404)}) == 2
    assert Status(404) != "404"
    assert repr(Status(404, "a")) == "Status(404, 'a')"


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"A: 1\r\na: 2\r\nA: 3\r\n", {"A": ["1", "3"], "a": ["2"]}),
        (b"A:1\r\n", {"A": "1"}),
        (b"A: \t 1 2 \t\r\n", {"A": "1 2"}),
        (b"A:\r\nB: \r\n", {"A": "", "B": ""}),
        (b"A: b: c\r\n", {"A": "b: c"}),
        (b"nonsense\r\n: no key\r\nA: 1\r\n", {"A": "1"}),
        (b"\r\nA: 1\r\n", {"A": "1"}),
        (b"A: 1", {"A": "1"}),
        (b"A: x\ny\r\n", {"A": "x\ny"}),
        (b"A: x\ry\r\n", {"A": "x\ry"}),
        ("A: \u00e4\u20ac\U0001f600\r\n".encode(), {"A": "\u00e4\u20ac\U0001f600"}),
        (b"A b: 1\r\n", {"A b": "1"}),
    ],
)
def test_lines_are_read_leniently(lines: bytes, expected: dict[str, str | list[str]]) -> None:
    for block in (b"NATS/1.0\r\n" + lines, b"NATS/1.0\r\n" + lines + b"\r\n"):
        if block.endswith((b"\r\n", b"A: 1")):
            assert parse_header_block(block) == expected
            assert parse_header_block(memoryview(block)) == expected


def test_bytes_that_are_not_utf_8_are_kept_unchanged() -> None:
    block = b"NATS/1.0\r\nA: \xff\xfe caf\xe9\r\n\r\n"
    assert encode_header_block(parse_header_block(block)) == block


# -- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "a b", "a:", ":", "a\r", "a\nb", "a\t", "\x7f", "\x00", "sch\u00f6n", "a\n"])
def test_an_invalid_key_is_refused(key: str) -> None:
    with pytest.raises(BadHeadersError) as caught:
        encode_header_block({"good": "1", key: "2"})
    assert repr(key) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", ["x\r\ny", "\r", "\n", "x\n", "\ud800"])
def test_an_invalid_value_is_refused_and_not_shown(value: str) -> None:
    for headers in ({"Token": value}, {"Token": ["fine", value]}, [("Token", value)]):
        with pytest.raises(BadHeadersError, match="'Token'") as caught:
            encode_header_block(headers)
        assert value not in str(caught.value)


@pytest.mark.parametrize("key", ["!", "~", "Nats-Msg-Id", "a\u0022b", "(key)"])
def test_every_visible_ascii_character_is_allowed_in_a_key(key: str) -> None:
    assert parse_header_block(encode_header_block({key: "1"})) == {key: "1"}


# -- the mapping ---------------------------------------------------------------------------------------------------


def test_a_header_returns_its_first_value_or_all_of_them() -> None:
    headers = Headers([("A", "1"), ("a", "2"), ("A", "3")])
    assert headers["A"] == headers.get("A") == "1"
    assert headers.get_all("A") == ["1", "3"]
    assert headers["a"] == "2"
    assert headers.get("b") is None
    assert headers.get("b", "x") == "x"
    assert headers.get_all("b") == []
    assert list(headers) == ["A", "a"]
    assert len(headers) == 2
    assert "A" in headers
    assert "b" not in headers
    assert list(headers.items()) == [("A", "1"), ("A", "3"), ("a", "2")]
    assert headers.to_dict() == {"A": ["1", "3"], "a": ["2"]}
    with pytest.raises(KeyError):
        headers["b"]


def test_headers_are_changed_key_by_key_and_copies_are_independent() -> None:
    headers = Headers({"A": ["1", "2"], "B": "3"})
    copy = headers.copy()
    headers["A"] = "9"
    headers.add("B", "4")
    del headers["B"]
    headers.to_dict()["A"].append("x")
    headers.get_all("A").append("x")
    assert headers == {"A": "9"}
    assert copy == {"A": ["1", "2"], "B": "3"}
    assert headers != copy
    assert headers != 5
    assert repr(headers) == "Headers({'A': ['9']})"


def test_pop_last_removes_the_last_value_of_a_key() -> None:
    headers = Headers([("A", "1"), ("B", "2"), ("A", "3")])
    copied = headers.copy()
    assert copied.pop_last("A") == "3"
    assert copied.get_all("A") == ["1"]
    assert copied.pop_last("A") == "1"
    assert "A" not in copied
    assert copied.pop_last("A") is None
    assert headers.get_all("A") == ["1", "3"]
