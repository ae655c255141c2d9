"""The columns of a run equal the columns that are read by searching."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.streams import Piece, ack_subjects, joined, message, odd_ack_subjects
from tests.wire.test_frame_runs import deliveries

from jetspark.bulk.columns import build_batch, parse_ack_subjects, scan_schema
from jetspark.errors import InvalidAckError
from jetspark.jetstream import parse_ack_subject
from jetspark.wire.vector import FrameTable, decode

steady = settings(derandomize=True, max_examples=60)


def batch(table: FrameTable) -> pa.RecordBatch:
    return build_batch(table, parse_ack_subjects(table.lines), scan_schema(), "ORDERS")


@steady
@given(deliveries())
def test_columns_of_a_run_equal_the_columns_of_a_search(pieces: list[Piece]) -> None:
    table = decode(pa.py_buffer(joined(pieces)))
    searched = table.select(np.ones(len(table), np.bool_))
    assert batch(table).equals(batch(searched))
    ours, theirs = parse_ack_subjects(table.lines), parse_ack_subjects(searched.lines)
    assert (ours.consumer_sequence == theirs.consumer_sequence).all()
    assert ours.row(len(table) - 1) == theirs.row(len(table) - 1)
    assert (ours.head(3).sequence == theirs.sequence[:3]).all()


def scalar_metadata(replies: list[bytes]) -> list[tuple[int, int, int]] | None:
    """The sequences and the time of each delivery, by the scalar parser; None if it refuses one of them.

    Columns are of int64, so they also refuse a larger sequence.
    """
    try:
        found = [parse_ack_subject(reply.decode("utf-8", "replace")) for reply in replies]
    except InvalidAckError:
        return None
    rows = [(each.stream_sequence, each.consumer_sequence, each.timestamp_ns) for each in found]
    return rows if all(number < 2**63 for row in rows for number in row) else None


def vector_metadata(replies: list[bytes]) -> list[tuple[int, int, int]] | None:
    """The same by the columns."""
    try:
        acks = parse_ack_subjects(decode(pa.py_buffer(joined(message(b"x", reply=reply) for reply in replies))).lines)
        columns = [acks.sequence.tolist(), acks.consumer_sequence.tolist(), acks.timestamp_ns.tolist()]
    except InvalidAckError:
        return None
    return list(zip(*columns, strict=True))


@settings(derandomize=True, max_examples=300)
@given(
    st.lists(st.one_of(odd_ack_subjects(), ack_subjects()), min_size=1, max_size=4).filter(
        lambda replies: all(reply and b" " not in reply for reply in replies)
    ),
    st.sampled_from([1, 1, 70]),
)
def test_both_readers_of_ack_subjects_decide_alike(replies: list[bytes], times: int) -> None:
    many = replies * times
    assert vector_metadata(many) == scalar_metadata(many)


@pytest.mark.parametrize("number", [b"10000000000000000000", b"12345x"])
def test_an_invalid_number_in_a_run_is_refused(number: bytes) -> None:
    reply = b"$JS.ACK.ORDERS.c.1.%b.1.1.1" % number
    table = decode(pa.py_buffer(joined([message(b"x", reply=reply)] * 100)))
    assert table.run is not None
    with pytest.raises(InvalidAckError):
        _ = parse_ack_subjects(table.lines).sequence


@pytest.mark.parametrize("count", [1, 255, 256, 4096, 4097])
@pytest.mark.parametrize("subject", [b"a", b"\xff", b"s" * 256, b"s" * 257])
def test_columns_of_a_constant_text_are_correct_in_every_size_and_small_when_few(count: int, subject: bytes) -> None:
    replies = [b"$JS.ACK.ORDERS.c.1.%d.%d.%d.1" % (row + 1000, row + 1000, row + 10**18) for row in range(count)]
    pieces = [message(b"x", subject=subject, reply=reply) for reply in replies]
    made = batch(decode(pa.py_buffer(joined(pieces))))
    assert made.column("subject").to_pylist() == [subject.decode(errors="replace")] * count
    assert made.column("stream").to_pylist() == ["ORDERS"] * count
    if count < 256:
        assert len(pickle.dumps(made)) < 10_000 + 2_000 * count
