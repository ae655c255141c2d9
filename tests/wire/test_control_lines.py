"""Words of many control lines at once: lines with one shape, lines with nearly one shape, and any others."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.readers import read_scalar, read_vector
from tests.wire.streams import Piece, ack_subjects, joined, message, messages, sids, tokens

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import MsgFrame
from jetspark.wire.vector import decode
from jetspark.wire.vector.byte_spans import parse_numbers
from jetspark.wire.vector.control_lines import read_lines

steady = settings(derandomize=True, max_examples=80)

words = st.lists(st.sampled_from(b"abz09$_-\xff"), min_size=1, max_size=6).map(bytes)


@st.composite
def streams_of_one_shape(draw: st.DrawFn) -> list[Piece]:
    """Messages whose control lines have the same spaces and dots in the same order, like those of one consumer."""
    dots, reply_dots = draw(st.integers(0, 3)), draw(st.integers(-1, 10))
    with_header = draw(st.booleans())
    width = draw(st.sampled_from([0, 0, 6]))
    pieces = []
    for _ in range(draw(st.integers(1, 8))):
        subject = b".".join(draw(words) for _ in range(dots + 1))
        reply = b".".join(draw(words) for _ in range(reply_dots + 1))
        header = draw(st.binary(max_size=12)) if with_header else None
        pieces.append(
            message(
                draw(st.binary(max_size=12)), subject=subject, sid=draw(sids), reply=reply, header=header, width=width
            )
        )
    return pieces


@steady
@given(st.one_of(streams_of_one_shape(), st.lists(messages, max_size=8)))
def test_subjects_replies_and_ids_agree_with_the_scalar_parser(pieces: list[Piece]) -> None:
    lines = decode(pa.py_buffer(joined(pieces))).lines
    raw = lines.bytes.tobytes()
    assert bytes(memoryview(lines.buffer)) == raw
    expected = [piece.frame for piece in pieces if isinstance(piece.frame, MsgFrame)]
    assert lines.subjects().to_pylist() == [frame.subject for frame in expected]
    subject_spans = zip(lines.subject_start, lines.subject_end, strict=True)
    assert [raw[start:end] for start, end in subject_spans] == [frame.subject for frame in expected]
    reply_spans = zip(lines.reply_start, lines.reply_end, strict=True)
    assert [raw[start:end] for start, end in reply_spans] == [frame.reply for frame in expected]
    assert lines.sid.dtype == np.uint64
    assert lines.sid.tolist() == [frame.sid for frame in expected]
    if lines.reply_dots is not None:
        spans = zip(lines.reply_start.tolist(), lines.reply_end.tolist(), strict=True)
        assert lines.reply_dots.tolist() == [[at for at in range(*span) if raw[at] == ord(".")] for span in spans]


@steady
@given(streams_of_one_shape(), st.data())
def test_lines_with_nearly_one_shape_are_read_or_refused_alike(pieces: list[Piece], data: st.DataObject) -> None:
    damaged = list(joined(pieces))
    for _ in range(data.draw(st.integers(1, 3))):
        # The first line is always a control line.
        at = data.draw(st.integers(0, len(damaged) - 1 if data.draw(st.booleans()) else damaged.index(10)))
        damaged[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(b" .x1"), max_size=2))
        if not damaged or 10 not in damaged:
            break
    stream = bytes(damaged)
    scalar, vector = read_scalar(stream), read_vector(stream)
    assert scalar.refused == vector.refused
    assert scalar.refused or scalar == vector


def test_dots_may_move_from_the_subject_to_the_reply() -> None:
    for reply in (b"b.c", b"5.c"):
        pieces = [message(b"x", subject=b"a.b", reply=b"c"), message(b"x", subject=b"a", reply=reply)]
        assert read_vector(joined(pieces)).frames == [piece.frame for piece in pieces]


def test_an_extra_word_is_not_taken_for_one_of_the_next_line() -> None:
    data = b"MSG a 1 r 0 0\r\n\r\nMSG 5 1 0\r\n\r\n"
    assert read_scalar(data).refused
    assert read_vector(data).refused


def test_a_line_may_have_separators_that_the_next_one_lacks() -> None:
    for first, second in (
        (b"MSG a 1 r 0", b"MSG ab 1 0"),
        (b"MSG a.b.c 1 0", b"MSG a 1 0"),
        (b"MSG a 1 0", b"HMSG a 1 0 0"),
    ):
        stream = first + b"\r\n\r\n" + second + b"\r\n\r\n"
        for data in (stream, second + b"\r\n\r\n" + first + b"\r\n\r\n"):
            assert read_vector(data) == read_scalar(data)


@steady
@given(st.lists(ack_subjects(), min_size=1, max_size=6), tokens)
def test_numbers_of_ack_subjects_are_exact_up_to_64_bits(replies: list[bytes], subject: bytes) -> None:
    lines = decode(pa.py_buffer(joined(message(b"", subject=subject, reply=reply) for reply in replies))).lines
    for place in range(5):  # delivered, stream sequence, consumer sequence, time, pending
        starts, ends, expected = [], [], []
        for reply, reply_start in zip(replies, lines.reply_start.tolist(), strict=True):
            parts = reply.split(b".")
            at = (4 if len(parts) == 9 else 6) + place
            starts.append(reply_start + len(b".".join(parts[:at])) + 1)
            ends.append(starts[-1] + len(parts[at]))
            expected.append(int(parts[at]))
        found, good = parse_numbers(lines.words, np.array(starts, np.int64), np.array(ends, np.int64))
        assert good.all()
        assert found.tolist() == expected


@pytest.mark.parametrize(
    "line", [b"MSG a 1 2 3 4", b"MSG a 0", b"MSG  1 0", b"MSG a x 0", b"HMSG a  1 0 0", b"HMSG a 1 0"]
)
def test_an_invalid_line_is_refused_and_shown(line: bytes) -> None:
    data = b"MSG good 1 0" + line
    starts, ends = np.array([0, 12]), np.array([12, len(data)])
    with pytest.raises(ProtocolError) as caught:
        read_lines(pa.py_buffer(data), starts, ends)
    assert line.decode() in str(caught.value)


def test_no_lines_give_no_words() -> None:
    lines = decode(pa.py_buffer(b"PING\r\n")).lines
    assert lines.subjects().to_pylist() == []
    assert len(lines.sid) == 0


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("line", [b"MSG a 1  3\r\nabc\r\n", b"HMSG a 1  12 15\r\nNATS/1.0\r\n\r\nabc\r\n"])
def test_an_empty_reply_is_read_as_empty(line: bytes, count: int) -> None:
    data = line * count + joined([message(b"x", subject=b"b", reply=b"c.d")]) + line
    reading = read_vector(data)
    assert reading == read_scalar(data)
    assert [frame.reply for frame in reading.frames if isinstance(frame, MsgFrame)] == [*[b""] * count, b"c.d", b""]
    assert read_vector(line * count) == read_scalar(line * count)


@pytest.mark.parametrize("line", [b"MSG  1 0", b"MSG a  0", b"MSG a 1  0", b"MSG a 12  0", b"MSG a 1 r  0"])
def test_lines_with_an_empty_word_are_read_alike_one_by_one_or_together(line: bytes) -> None:
    for count in (1, 2, 5):
        stream = (line + b"\r\n\r\n") * count
        scalar, vector = read_scalar(stream), read_vector(stream)
        assert vector.refused == scalar.refused
        assert scalar.refused or vector == scalar
