"""Runs of messages with equal length: reading them by template and by searching gives the same result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.readers import read_scalar, read_vector
from tests.wire.streams import Piece, joined, message

from jetspark.wire.frames import FrameLimits
from jetspark.wire.vector import decode
from jetspark.wire.vector.control_lines import read_lines
from jetspark.wire.vector.frame_runs import MIN_RUN_FRAMES

steady = settings(derandomize=True, max_examples=120)


def delivery(number: int, *, size: int = 3, subject: bytes = b"a.b", second: bool = False, sid: int = 2) -> Piece:
    """A message of a consumer, with numbers of six digits."""
    middle = b"$JS.ACK.hub.ACC." if second else b"$JS.ACK."
    reply = b"%bORDERS.c-1.1.%d.%d.%d.%d" % (middle, number, number + 7, 10**18 + number, 999_999 - number)
    return message(bytes([number % 256]) * size, subject=subject, sid=sid, reply=reply)


def answer(number: int, *, size: int = 3, inbox: bytes = b"_INBOX.ab", sid: int = 2) -> Piece:
    """Return the answer to a publish, on one of a thousand subjects."""
    return message(bytes([number % 256]) * size, subject=b"%b.%03d" % (inbox, number % 1000), sid=sid)


@st.composite
def answers(draw: st.DrawFn) -> list[Piece]:
    size = draw(st.integers(0, 12))
    inbox = draw(st.sampled_from([b"a", b"_INBOX.4", b"\xff.long.inbox"]))
    count = draw(st.integers(MIN_RUN_FRAMES - 2, MIN_RUN_FRAMES + 40))
    return [answer(number, size=size, inbox=inbox) for number in range(count)]


@st.composite
def deliveries(draw: st.DrawFn) -> list[Piece]:
    size = draw(st.integers(0, 12))
    subject = draw(st.sampled_from([b"a", b"a.b", b"\xff.long.subject"]))
    second, sid = draw(st.booleans()), draw(st.sampled_from([1, 2, 77]))
    first = draw(st.integers(100_000, 500_000))
    count = draw(st.integers(MIN_RUN_FRAMES - 2, MIN_RUN_FRAMES + 40))
    return [delivery(first + row, size=size, subject=subject, second=second, sid=sid) for row in range(count)]


runs = st.one_of(deliveries(), answers())

between = st.sampled_from(
    [b"", b"", b"PING\r\n", b"MSG x 1 0\r\n\r\n", b"HMSG x 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", b"bad\r\n"]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A few runs with other frames in between, some changed bytes, and a cut end."""
    data = bytearray()
    for run in draw(st.lists(runs, min_size=1, max_size=3)):
        data += joined(run) + draw(between)
    places = st.integers(0, len(data) - 1)
    for place in draw(st.lists(places, max_size=3)):
        data[place] = draw(st.sampled_from(b" .\r\n0a5\xff\x1a"))
    return bytes(data[: draw(st.one_of(st.just(len(data)), places))])


@steady
@given(damaged())
def test_both_parsers_read_damaged_runs_alike(data: bytes) -> None:
    scalar, vector = read_scalar(data), read_vector(data)
    assert scalar.refused == vector.refused
    if not scalar.refused:
        assert scalar == vector


@steady
@given(st.lists(runs, min_size=1, max_size=3))
def test_the_words_of_a_run_equal_those_of_a_search(pieces: list[list[Piece]]) -> None:
    table = decode(pa.py_buffer(b"".join(map(joined, pieces))))
    searched = read_lines(table.buffer, table.start, table.line_end)
    assert table.lines.subjects() == searched.subjects()
    assert (table.lines.sid == searched.sid).all()
    assert (table.lines.reply_end - table.lines.reply_start == searched.reply_end - searched.reply_start).all()


def test_a_run_ends_before_the_first_frame_that_differs() -> None:
    odd_reply = b"$JS.ACK.ORDERS.c-1.1.1.0200.100207.1000000000000100200.899799"
    alike = [delivery(100_000 + row) for row in range(300)]
    for place, other in enumerate(
        [
            delivery(100_200, sid=3),
            delivery(100_200, subject=b"a.c"),
            delivery(100_200, size=4),
            message(b"abc", subject=b"a.b", sid=2, reply=odd_reply),
        ]
    ):
        pieces = [*alike[:200], other, *alike[201:]]
        table = decode(pa.py_buffer(joined(pieces)))
        assert [piece.frame for piece in pieces] == list(table.frames()), place
        assert table.run is None
        run = decode(pa.py_buffer(joined(pieces[:200]))).run
        assert run is not None
        assert run.count == 200


def test_a_run_of_answers_ends_before_the_first_one_that_differs() -> None:
    alike = [answer(row) for row in range(300)]
    for place, other in enumerate(
        [
            answer(200, sid=3),
            answer(200, inbox=b"_INBOX.cd"),
            answer(200, size=4),
            message(b"abc", subject=b"_INBOX.ab.2.0", sid=2),
            message(b"", subject=b"_INBOX.ab.200", sid=2, reply=b"2"),
        ]
    ):
        pieces = [*alike[:200], other, *alike[201:]]
        table = decode(pa.py_buffer(joined(pieces)))
        assert [piece.frame for piece in pieces] == list(table.frames()), place
        assert table.run is None
        run = decode(pa.py_buffer(joined(pieces[:200])))
        assert run.run is not None
        assert run.run.count == len(run) == 200
        assert run.lines.subjects().to_pylist() == [b"_INBOX.ab.%03d" % row for row in range(200)]
        assert not (run.lines.reply_end - run.lines.reply_start).any()


def test_runs_of_two_lengths_can_follow_each_other() -> None:
    pieces = [delivery(100_000 + row) for row in range(100)] + [delivery(200_000 + row, size=9) for row in range(100)]
    table = decode(pa.py_buffer(joined(pieces) + b"MSG a.b"))
    assert table.run is None
    assert (len(table), table.consumed) == (200, len(joined(pieces)))
    assert list(table.frames()) == [piece.frame for piece in pieces]


def test_a_few_frames_are_not_a_run() -> None:
    pieces = [delivery(100_000 + row) for row in range(MIN_RUN_FRAMES - 1)]
    assert decode(pa.py_buffer(joined(pieces))).run is None


def test_messages_without_ack_subject_are_not_a_run() -> None:
    for reply in (b"", b"_INBOX.1", b"$JS.ACK.a.b.c"):
        pieces = [message(b"abc", subject=b"a", reply=reply)] * (2 * MIN_RUN_FRAMES)
        table = decode(pa.py_buffer(joined(pieces)))
        assert table.run is None
        assert len(table) == 2 * MIN_RUN_FRAMES


@pytest.mark.parametrize("limits", [FrameLimits(line=40, size=1 << 20), FrameLimits(line=4096, size=2)])
def test_limits_apply_to_runs(limits: FrameLimits) -> None:
    data = joined(delivery(100_000 + row) for row in range(100))
    assert read_vector(data, limits).refused
    assert read_scalar(data, limits).refused


def test_a_part_of_a_table_of_runs_can_be_read_alone() -> None:
    pieces = [delivery(100_000 + row) for row in range(100)]
    table = decode(pa.py_buffer(joined(pieces)))
    head, odd = table.head(3), table.select(np.arange(100) % 2 == 1)
    assert list(head.frames()) == [piece.frame for piece in pieces[:3]]
    assert list(odd.frames()) == [piece.frame for piece in pieces[1::2]]
    assert odd.lines.subjects().to_pylist() == [b"a.b"] * 50
    assert table.run is not None
    assert head.run is None


@pytest.mark.parametrize("at", [63, 64, 1023, 1024, 1025, 2047, 2048, 3999])
def test_a_long_run_ends_before_the_first_frame_that_differs(at: int) -> None:
    frames = [answer(number, inbox=b"_INBOX.ab") for number in range(4000)]
    frames[at] = answer(at, inbox=b"_INBOX.ac")
    data = joined(frames)
    assert read_vector(data) == read_scalar(data)
