"""Numbers and spans in a byte buffer for all rows at once, compared with Python's int and slices."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetspark.wire.vector.byte_spans import (
    PADDING,
    copy_padded,
    find_byte,
    gather_spans,
    parse_numbers,
    parse_trailing_numbers,
    sliding_words,
    value_offsets,
)

steady = settings(derandomize=True, max_examples=70)

LARGEST = b"18446744073709551615"
tokens = st.one_of(
    st.integers(0, 2**64 - 1).map(b"%d".__mod__),
    st.integers(0, 10**24).map(b"%d".__mod__),
    st.tuples(st.integers(1, 22), st.integers(0, 10**6)).map(lambda pair: b"%0*d" % pair),
    st.sampled_from([b"", LARGEST, b"18446744073709551616", b"18450000000000000000", b"9" * 19, b"9" * 20, b"9" * 21]),
    st.lists(st.sampled_from(b"0123456789/:\x00\xb0\xff -"), max_size=22).map(bytes),
)


def is_number(token: bytes) -> bool:
    return token.isdigit() and len(token) <= 20 and int(token) < 2**64


def read_numbers(texts: list[bytes]) -> tuple[list[int], list[bool]]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64) + PADDING
    starts = ends - np.array([len(text) for text in texts], np.int64)
    data = np.frombuffer(b"7" * PADDING + b"".join(texts) + b"7" * 8, np.uint8)
    found, good = parse_numbers(sliding_words(data), starts, ends)
    return found.tolist(), good.tolist()


@steady
@given(st.lists(tokens, min_size=1, max_size=20))
@example([b"18446744073709551616", b"9" * 21])
@example([b"99999999999999999999", LARGEST, b"1"])
def test_numbers_are_parsed_like_python_ints_and_others_are_reported(texts: list[bytes]) -> None:
    found, good = read_numbers(texts)
    assert good == [is_number(text) for text in texts]
    assert [number for number, fine in zip(found, good, strict=True) if fine] == [
        int(text) for text in texts if is_number(text)
    ]


@steady
@given(st.integers(1, 22), st.data())
def test_numbers_of_one_length_are_parsed_like_python_ints(length: int, data: st.DataObject) -> None:
    digits = st.binary(min_size=length, max_size=length).map(lambda raw: bytes(48 + byte % 10 for byte in raw))
    prefix = data.draw(digits)
    rows = data.draw(st.lists(digits, min_size=1, max_size=6))
    shared = data.draw(st.integers(0, length))
    texts = [prefix[:shared] + row[shared:] for row in rows]
    found, good = read_numbers(texts)
    assert good == [is_number(text) for text in texts]
    for text, number, fine in zip(texts, found, good, strict=True):
        assert not fine or number == int(text)


@pytest.mark.parametrize("length", range(1, 21))
def test_a_byte_that_is_not_a_digit_is_noticed_at_every_position(length: int) -> None:
    for place in range(length):
        texts = [b"1" * place + bytes([byte]) + b"1" * (length - place - 1) for byte in range(256)]
        assert read_numbers(texts)[1] == [is_number(text) for text in texts]


def test_no_rows_give_no_numbers() -> None:
    assert read_numbers([]) == ([], [])


@st.composite
def eight_bytes(draw: st.DrawFn) -> bytes:
    tail = draw(st.lists(st.sampled_from(b"0123456789"), max_size=8).map(bytes))
    if draw(st.booleans()):
        tail = b" " + tail
    raw = draw(st.binary(min_size=8, max_size=8)) + tail
    return raw[-8:]


@steady
@given(st.lists(eight_bytes(), min_size=1, max_size=30))
def test_a_trailing_number_is_the_text_after_the_last_space(texts: list[bytes]) -> None:
    found, count, good = parse_trailing_numbers(np.frombuffer(b"".join(texts), "<u8"))
    for text, number, digits, fine in zip(texts, found.tolist(), count.tolist(), good.tolist(), strict=True):
        _, space, tail = text.rpartition(b" ")
        assert fine == (bool(space) and tail.isdigit())
        if fine:
            assert (number, digits) == (int(tail), len(tail))


@pytest.mark.parametrize("length", range(8))
def test_a_byte_before_a_trailing_number_must_be_a_space(length: int) -> None:
    texts = [b"5" * (7 - length) + bytes([byte]) + b"9" * length for byte in range(256)]
    good = parse_trailing_numbers(np.frombuffer(b"".join(texts), "<u8"))[2].tolist()
    assert good == [length > 0 and byte == 32 for byte in range(256)]


# -- spans ---------------------------------------------------------------------------------------------------------


@steady
@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=20))
def test_gathered_spans_are_slices(data: bytes, marks: list[int]) -> None:
    places = sorted(min(mark, len(data)) for mark in marks[: len(marks) // 2 * 2])
    starts, ends = places[::2], places[1::2]
    spans = gather_spans(pa.py_buffer(data), np.array(starts, np.int64), np.array(ends, np.int64))
    assert spans.to_pylist() == [data[start:end] for start, end in zip(starts, ends, strict=True)]


def test_the_number_of_gathered_spans_can_grow_and_shrink() -> None:
    for count in (3, 20_000, 0, 5, 50_000):
        places = np.arange(count, dtype=np.int64)
        assert gather_spans(pa.py_buffer(b"x" * count), places, places + 1).to_pylist() == [b"x"] * count


@steady
@given(st.lists(st.one_of(st.none(), st.binary(max_size=10)), max_size=10), st.integers(0, 10), st.integers(0, 10))
def test_offsets_and_bytes_match_the_slice(values: list[bytes | None], start: int, length: int) -> None:
    spans = pa.array(values, pa.binary()).slice(start, length)
    expected = [value or b"" for value in values[start : start + length]]
    offsets, data = copy_padded(spans)
    raw = data.tobytes()
    assert [raw[first:stop] for first, stop in pairwise(offsets)] == expected
    assert raw == bytes(PADDING) + b"".join(expected) + bytes(8)
    ends = value_offsets(spans)
    assert np.diff(ends).tolist() == [len(value) for value in expected]


@pytest.mark.parametrize("size", [0, 1, 7, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 1 << 19])
def test_bytes_are_found_in_buffers_of_any_size(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 20, size, np.uint8)
    assert find_byte(data, 3).tolist() == [place for place, byte in enumerate(data.tolist()) if byte == 3]
    assert find_byte(data, 3, 5).tolist() == [place for place, byte in enumerate(data.tolist()) if byte in {3, 5}]


def test_words_are_empty_if_the_buffer_is_too_short() -> None:
    for size in range(8):
        assert len(sliding_words(np.zeros(size, np.uint8))) == 0
    assert sliding_words(np.arange(9, dtype=np.uint8)).tolist() == [0x0706050403020100, 0x0807060504030201]
