"""The vectorised decoder agrees with the scalar parser on complete, split and damaged streams.

`tests.wire.streams` defines how they agree if an error comes after good frames.
"""

from bisect import bisect_right
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.readers import DEFAULT, column_frames, read_in_pieces, read_scalar, read_vector
from tests.wire.streams import TRAPS, Piece, controls, frames_in_steps, hard_streams, joined, message, messages, streams

from jetspark.wire.frames import FrameLimits, MsgFrame, Ping
from jetspark.wire.vector import decode

steady = settings(derandomize=True, max_examples=150)
few = settings(derandomize=True, max_examples=25)


@steady
@given(st.one_of(streams, hard_streams()))
def test_both_read_a_whole_stream(pieces: list[Piece]) -> None:
    data = joined(pieces)
    expected = [piece.frame for piece in pieces]
    for reading in (read_scalar(data), read_vector(data)):
        assert reading.frames == expected
        assert (reading.rest, reading.refused) == (b"", False)


@settings(derandomize=True, max_examples=15)
@given(st.one_of(streams, hard_streams()))
def test_both_read_every_prefix_of_a_stream_and_continue_with_the_rest(pieces: list[Piece]) -> None:
    data = joined(pieces)
    ends = [0, *accumulate(len(piece.raw) for piece in pieces)]
    frames = [piece.frame for piece in pieces]
    for cut in range(len(data) + 1):
        complete = bisect_right(ends, cut) - 1
        for reading in (read_scalar(data[:cut]), read_vector(data[:cut])):
            assert reading == (frames[:complete], data[ends[complete] : cut], False)
    for end, complete in zip(ends, range(len(ends)), strict=True):
        assert read_vector(data[end:]).frames == read_scalar(data[end:]).frames == frames[complete:]


@few
@given(streams, st.data())
def test_unconsumed_bytes_are_read_together_with_the_following_bytes(pieces: list[Piece], data: st.DataObject) -> None:
    stream = joined(pieces)
    cut = data.draw(st.integers(0, len(stream)))
    expected = [piece.frame for piece in pieces]
    assert frames_in_steps(stream, cut, read_scalar) == expected
    assert frames_in_steps(stream, cut, read_vector) == expected


@few
@given(st.lists(messages, min_size=1, max_size=4), st.data())
def test_the_size_of_an_incomplete_message_is_known_once_its_line_is_complete(
    pieces: list[Piece], data: st.DataObject
) -> None:
    *whole, last = pieces
    line = last.raw.index(b"\n") + 1
    cut = data.draw(st.integers(0, len(last.raw) - 1))
    table = decode(pa.py_buffer(joined(whole) + last.raw[:cut]))
    assert table.consumed == len(joined(whole))
    assert table.needed == (len(last.raw) if cut >= line else 0)


@given(st.lists(controls, min_size=1, max_size=300))
@few
def test_many_control_lines_in_a_row_are_read(pieces: list[Piece]) -> None:
    with_message = [*pieces, message(b"x"), *pieces]
    reading = read_vector(joined(with_message))
    assert reading.frames == [piece.frame for piece in with_message]


# -- damaged streams -----------------------------------------------------------------------------------------------

SMALL = FrameLimits(line=60, size=80)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A stream with changed, inserted and removed bytes."""
    data = bytearray(joined(draw(st.lists(st.one_of(messages, controls), min_size=1, max_size=5))))
    telling = st.one_of(st.sampled_from(b"\r\n MSGHPINO+-0123456789\x00\xff"), st.integers(0, 255))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["flip", "insert", "remove", "trap"]))
        if how == "flip":
            data[at : at + 1] = bytes([draw(telling)])
        elif how == "insert":
            data[at:at] = bytes([draw(telling)])
        elif how == "remove":
            del data[at : at + draw(st.integers(1, 4))]
        else:
            data[at:at] = draw(st.sampled_from(TRAPS))
    return bytes(data)


def assert_same(data: bytes, limits: FrameLimits) -> None:
    scalar, vector = read_scalar(data, limits), read_vector(data, limits)
    assert scalar.refused == vector.refused
    if not scalar.refused:
        assert scalar == vector


@settings(derandomize=True, max_examples=350)
@given(damaged(), st.sampled_from([DEFAULT, SMALL]))
def test_both_refuse_a_damaged_stream_or_both_read_it(data: bytes, limits: FrameLimits) -> None:
    assert_same(data, limits)


@settings(derandomize=True, max_examples=350)
@given(st.lists(st.sampled_from([*TRAPS, b"MSG a 1 r 1\r\n", b"HMSG a 1", b"PING", b"+OK\r\n", b"-ERR"]), max_size=12))
def test_both_refuse_random_bytes_or_both_read_them(parts: list[bytes]) -> None:
    assert_same(b"".join(parts), DEFAULT)


@few
@given(damaged(), st.lists(st.integers(0, 400), max_size=6), st.sampled_from([DEFAULT, SMALL]))
def test_a_damaged_stream_is_read_the_same_however_it_is_split(
    data: bytes, cuts: list[int], limits: FrameLimits
) -> None:
    marks = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    in_pieces = read_in_pieces([data[start:stop] for start, stop in pairwise(marks)], limits)
    assert in_pieces == read_scalar(data, limits)


@few
@given(damaged(), st.sampled_from([DEFAULT, SMALL]))
def test_both_refuse_a_damaged_stream_at_the_same_byte(data: bytes, limits: FrameLimits) -> None:
    for cut in range(len(data)):
        assert_same(data[:cut], limits)


@pytest.mark.parametrize(
    "line",
    [
        b"MSG",
        b"MSG ",
        b"MSG a",
        b"MSG a 1",
        b"MSG  1 0",
        b"MSG a  0",
        b"MSG a 1 ",
        b"MSG a 1 r ",
        b"MSG a 1 r  0",
        b"MSG a 1 r 0 0",
        b"MSG a x 0",
        b"MSG a 1 -0",
        b"MSG a 1 x",
        b"MSG a 1 0\r",
        b"MSG a 18446744073709551616 0",
        b"MSG a 99999999999999999999 0",
        b"MSG a 000000000000000000001 0",
        b"MSG 1234567",
        b"MSG 12345678",
        b"MSG a 1 99999999",
        b"MSG a 1 99999999999999999999999999",
        b"HMSG a 1 0",
        b"HMSG a 1 2 1",
        b"HMSG a 1 r  2",
        b"HMSG a  2 2",
        b"HMSG  1 2 2",
        b"HMSG a 1 x 2",
        b"HMSG a 1 : 10",
        b"HMSG a 1 r x 2",
        b"HMSG a 1 r 2 2 2",
        b"HMSG a 1 r 2 2 ",
        b"HMSGa 1 2 2",
        b"msg a 1 0",
        b"PINGS",
        b"ping",
        b"",
        b"\r",
        b"PING\n",
        b"MSG a\n1 1 0",
        b"MSG abcdef\n1 1 0",
    ],
)
@pytest.mark.parametrize("before", [b"", message(b"x").raw, b"PING\r\n"])
@pytest.mark.parametrize("after", [b"", b"\r\n", b"0\r\n", b"00\r\n", b"0" * 10 + b"\r\n", message(b"x").raw])
def test_both_refuse_an_invalid_control_line_with_or_without_its_payload(
    line: bytes, before: bytes, after: bytes
) -> None:
    data = before + line + b"\r\n" + after
    assert read_scalar(data).refused
    assert read_vector(data).refused


@pytest.mark.parametrize("line", [b"PING", b"MSG a 1 0", b"MSG abcdef 1 0", b"HMSG abc 1 0 0", b"MSG a 1 000000000"])
@pytest.mark.parametrize("end", [b"\n", b" \n", b"x\n"])
@pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\n\r\n"])
def test_both_refuse_a_line_feed_without_a_carriage_return(line: bytes, end: bytes, after: bytes) -> None:
    assert read_scalar(line + end + after).refused
    assert read_vector(line + end + after).refused


@pytest.mark.parametrize("end", [b"xx", b"\rx", b"x\n", b"\n\r"])
@pytest.mark.parametrize("following", [b"", b"PING\r\n", message(b"x").raw])
def test_both_refuse_a_payload_without_its_line_end(end: bytes, following: bytes) -> None:
    for width in (0, 8):
        data = message(b"x").raw + message(b"y", width=width).raw[:-2] + end + following
        assert read_scalar(data).refused
        assert read_vector(data).refused


# -- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [0, 1])
def test_both_apply_the_limits_to_the_byte(excess: int) -> None:
    limits = FrameLimits(line=30, size=20)
    long_line = message(b"x", subject=b"a" * (30 + excess - len("MSG  1 1"))).raw
    long_info = b"INFO " + b"x" * (25 + excess) + b"\r\n"
    large = message(b"x" * (20 + excess)).raw
    large_slow = message(b"x" * (20 + excess), width=9).raw
    for data in (long_line, long_info, large, large_slow):
        for cut in range(len(data) + 1):
            assert_same(data[:cut], limits)
        assert read_scalar(data, limits).refused == read_vector(data, limits).refused == bool(excess)


def test_a_line_over_the_limit_is_refused_before_its_end_arrives() -> None:
    limits = FrameLimits(line=30, size=20)
    for start in (b"INFO ", b"MSG ", b"HMSG ", b""):
        data = start.ljust(32, b"x")
        assert read_scalar(data, limits).refused
        assert read_vector(data, limits).refused


@pytest.mark.parametrize("end", [b"\rx", b"\rx 7", b"xx"])
@pytest.mark.parametrize("place", range(1018, 1026))
def test_long_lines_of_one_shape_are_read_alike_if_a_carriage_return_is_in_them(place: int, end: bytes) -> None:
    size = 2000
    start, words = b"MSG a 1 $JS.ACK.", b".c.1.1.1.1.1 %d" % (size - 2)
    line = start + b"S" * (place - len(start) - len(words)) + words + end
    data = (line.ljust(size - 2, b"y") + b"\r\n") * 70
    assert read_vector(data).refused == read_scalar(data).refused


def test_a_buffer_over_2_gib_is_refused() -> None:
    class Large:
        size = 2**31

    with pytest.raises(ValueError, match="exceeds 2 GiB"):
        decode(Large())


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99_999, 1 << 20, 9_999_999, 10_000_000])
def test_both_read_payloads_of_any_size(size: int) -> None:
    payload = np.resize(np.frombuffer(b"\r\nMSG a 1 2\r\n\x80\xff", np.uint8), size).tobytes()
    pieces = [message(payload), message(payload, header=b"NATS/1.0\r\n\r\n", reply=b"r"), message(b"")]
    data = joined(pieces)
    for reading in (read_scalar(data), read_vector(data)):
        assert reading.frames == [piece.frame for piece in pieces]
    cut = data[: len(data) // 2]
    assert read_vector(cut) == read_scalar(cut)


@few
@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=3), st.integers(0, 3 << 20), st.binary(min_size=1))
def test_both_read_large_payloads_split_anywhere(sizes: list[int], cut: int, pattern: bytes) -> None:
    pieces = [message((pattern * (size // len(pattern) + 1))[:size], subject=b"large") for size in sizes]
    data = joined(pieces)[:cut]
    assert read_vector(data) == read_scalar(data)


# -- the table -----------------------------------------------------------------------------------------------------


@few
@given(streams, st.data())
def test_selected_rows_keep_their_columns(pieces: list[Piece], data: st.DataObject) -> None:
    table = decode(pa.py_buffer(joined(pieces)))
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))), np.bool_)
    part = table.select(chosen)
    sent = [piece.frame for piece in pieces if isinstance(piece.frame, MsgFrame)]
    expected = [frame for frame, kept in zip(sent, chosen, strict=True) if kept]
    assert column_frames(part) == expected
    assert column_frames(part.copy()) == expected
    assert [part.message(row) for row in range(len(part))] == expected
    assert part.controls == []
    assert part.consumed == table.consumed


def test_custom_limits_apply_and_sizes_may_have_nine_digits() -> None:
    trap = message(b"x").raw
    # If only the last eight digits were read, the size would end before the trap.
    payload = (bytes(9) + b"\n" + trap).ljust(100_000_001, b"x")
    data = b"MSG a 1 %d\r\n%b\r\n%b" % (len(payload), payload, b"PING\r\n" + trap + message(b"y", width=9).raw + trap)
    table = decode(pa.py_buffer(data), FrameLimits(size=1 << 30))
    assert table.consumed == len(data)
    assert [len(table.message(row).payload) for row in range(len(table))] == [len(payload), 1, 1, 1]
    assert table.controls == [(1, Ping())]
    assert read_vector(data).refused
