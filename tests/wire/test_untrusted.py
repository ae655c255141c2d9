"""Text from outside is read, or refused in one way, whatever is wrong with it."""

import msgspec
import pytest

from jetspark.wire.untrusted import MAX_INT64, decode_json, parse_number, quote

ANY = msgspec.json.Decoder(object)


class _Named(msgspec.Struct):
    name: str = ""
    number: int = 0


NAMED = msgspec.json.Decoder(_Named)

BAD_JSON = {
    "nothing": b"",
    "no JSON": b"nonsense",
    "cut off": b'{"number": 1',
    "two documents": b"{} {}",
    "a list": b"[]",
    "nested deeply": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "nested deeply and cut off": b'{"x":' + b"[" * 100_000,
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "a key that is not UTF-8": b'{"\xff": 1, "number": "x"}',
    "a lone surrogate": b'{"name": "\\ud800"}',
    "a lone low surrogate": b'{"name": "\\udc00 x"}',
    "NaN": b'{"number": NaN}',
    "infinity": b'{"number": 1e999}',
    "thousands of digits": b'{"number": ' + b"9" * 5000 + b"}",
    "more than 64 bits": b'{"number": 18446744073709551616}',
    "less than 64 bits": b'{"number": -9223372036854775809}',
    "an unknown number over 64 bits": b'{"other": [{"x": 99999999999999999999}]}',
    "a float": b'{"number": 1.5}',
    "text for a number": b'{"number": "1"}',
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_json_is_refused_in_one_way(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(NAMED, text)


def test_good_json_is_read_from_bytes_and_from_text() -> None:
    assert decode_json(NAMED, '{"name": "ä", "number": 18446744073709551615}') == _Named("ä", 2**64 - 1)
    assert decode_json(NAMED, b'{"number": -9223372036854775808, "number": 7}') == _Named("", 7)
    assert decode_json(ANY, b'{"digits": "99999999999999999999", "x": [1.5]}') == {
        "digits": "9" * 20,
        "x": [1.5],
    }
    with pytest.raises(msgspec.DecodeError):
        decode_json(ANY, '"\ud800"')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "+5",
        "-5",
        " 5",
        "5 ",
        "5\n",
        "1_000",
        "0x1f",
        "1.0",
        "\u0661",
        "\uff11",
        "²",
        "9" * 5000,
        "0" * 21,
        None,
    ],
)
def test_only_ascii_digits_of_at_most_64_bits_are_a_number(text: str | None) -> None:
    assert parse_number(text) is None
    assert text is None or parse_number(text.encode()) is None


def test_numbers_are_read_up_to_a_maximum() -> None:
    assert parse_number("18446744073709551615") == 2**64 - 1
    assert parse_number(b"00000000000000000017") == 17
    assert parse_number("9223372036854775807", MAX_INT64) == 2**63 - 1
    assert parse_number("9223372036854775808", MAX_INT64) is None


def test_a_bad_text_is_shown_quoted_and_cut() -> None:
    assert quote(b"a\xff") == "b'a\\xff'"
    assert len(quote("x" * 10**6)) < 250
