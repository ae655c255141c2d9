"""Frames of a record batch, built at once: each can be decoded and equals the scalar encoding."""

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.streams import TRAPS, ack_subjects, header_blocks, subjects

from jetspark.wire.errors import BadSubjectError
from jetspark.wire.frames import pub
from jetspark.wire.vector.encoder import encode_publishes, max_frame_sizes, row_offsets

steady = settings(derandomize=True, max_examples=80)


class Publish(NamedTuple):
    subject: bytes
    reply: bytes
    header: bytes
    payload: bytes


def read_publishes(data: bytes) -> list[Publish]:
    """Read PUB and HPUB like a server, but require single spaces."""
    found = []
    while data:
        line, end, rest = data.partition(b"\r\n")
        assert end
        verb, subject, *words = line.split(b" ")
        assert verb in {b"PUB", b"HPUB"}
        sizes = [int(words.pop()) for _ in range(len(verb) - 2)]
        size, header_size = sizes[0], sum(sizes[1:])
        assert len(words) <= 1
        assert rest[size : size + 2] == b"\r\n"
        found.append(Publish(subject, b"".join(words), rest[:header_size], rest[header_size:size]))
        data = rest[size + 2 :]
    return found


blocks = header_blocks.filter(bool)
bodies = st.one_of(st.none(), st.binary(max_size=20), st.lists(st.sampled_from(TRAPS), max_size=3).map(b"".join))


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[bytes, bytes, bytes | None, bytes | None]]:
    replies = st.one_of(st.just(b""), ack_subjects()) if draw(st.booleans()) else ack_subjects()
    headers = draw(st.sampled_from([st.none(), blocks, st.one_of(st.none(), blocks)]))
    return draw(st.lists(st.tuples(subjects, replies, bodies, headers), max_size=8))


@steady
@given(batches(), st.integers(0, 3), st.integers(0, 8), st.booleans())
def test_every_frame_equals_the_scalar_encoding_and_can_be_decoded(
    rows: list[tuple[bytes, bytes, bytes | None, bytes | None]], start: int, length: int, with_column: bool
) -> None:
    columns = [pa.array([row[place] for row in rows], pa.binary()).slice(start, length) for place in range(4)]
    rows = rows[start : start + length]
    with_column = with_column or any(header is not None for _, _, _, header in rows)
    frames = encode_publishes(columns[0], columns[1], columns[2], columns[3] if with_column else None)
    assert frames.to_pylist() == [
        pub(subject, payload or b"", reply=reply, header=header or b"") for subject, reply, payload, header in rows
    ]

    offsets = row_offsets(frames).tolist()
    assert len(offsets) == len(rows) + 1
    raw = bytes(memoryview(frames.buffers()[2])) if rows else b""
    sent = [Publish(subject, reply, header or b"", payload or b"") for subject, reply, payload, header in rows]
    assert read_publishes(raw[offsets[0] : offsets[-1]]) == sent
    for row in range(len(rows)):  # a sender may stop and continue at any row
        assert read_publishes(raw[offsets[row] : offsets[-1]]) == sent[row:]

    longest_reply = max((len(reply) for _, reply, _, _ in rows), default=0)
    bound = max_frame_sizes(columns[0], columns[2], longest_reply, columns[3] if with_column else None).to_pylist()
    assert all(len(frame) <= most for frame, most in zip(frames.to_pylist(), bound, strict=True))


@steady
@given(st.lists(st.binary(max_size=8), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_the_offsets_of_a_slice_of_frames_match_its_rows(values: list[bytes], start: int, length: int) -> None:
    frames = pa.array(values, pa.binary())
    part = frames.slice(start, length)
    offsets = row_offsets(part).tolist()
    raw = bytes(memoryview(frames.buffers()[2])) if values else b""
    assert [raw[a:b] for a, b in pairwise(offsets)] == part.to_pylist()


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 1 << 20, 9_999_999, 10_000_000])
@pytest.mark.parametrize("header", [None, b"NATS/1.0\r\nA: 1\r\n\r\n"])
def test_payloads_of_any_size_are_framed_and_limited(size: int, header: bytes | None) -> None:
    subject, reply, payload = b"orders.new", b"_INBOX.abc.1", b"\n" * size
    columns = [pa.array([value], pa.binary()) for value in (subject, reply, payload, header)]
    made = encode_publishes(*columns)[0].as_py()
    assert made == pub(subject, payload, reply=reply, header=header or b"")
    bound = max_frame_sizes(columns[0], columns[2], len(reply), columns[3])[0].as_py()
    assert len(made) <= bound <= len(made) + 40


@pytest.mark.parametrize(("place", "column"), [(0, "subject"), (1, "reply")])
def test_a_null_subject_or_reply_is_refused_with_its_row(place: int, column: str) -> None:
    columns = [pa.array([b"a", b"b", b"c"], pa.binary()) for _ in range(3)]
    columns[place] = pa.array([b"a", b"b", None], pa.binary())
    with pytest.raises(BadSubjectError, match=f"row 2: the {column} is null"):
        encode_publishes(*columns)


def test_an_empty_batch_gives_no_frames() -> None:
    empty = pa.array([], pa.binary())
    for headers in (None, empty):
        frames = encode_publishes(empty, empty, empty, headers)
        assert frames.to_pylist() == []
        assert row_offsets(frames).tolist() == [0]
