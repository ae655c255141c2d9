"""Content is cut into chunks, and their acknowledgements are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.engine.object_chunks import MAX_IN_FLIGHT, ChunkAcks, Chunker
from jetspark.errors import InvalidAckError, ObjectIncompleteError, WrongDomainError
from jetspark.jetstream.info import PubAck
from jetspark.wire.outbound import Payload


def cut(size: int, parts: list[bytes]) -> list[bytes]:
    chunker = Chunker(size)
    chunks: list[Payload] = [chunk for part in parts for chunk in chunker.add(part)]
    rest = chunker.rest()
    return [bytes(chunk) for chunk in (*chunks, *([rest] if rest else []))]


@pytest.mark.conformance("OBJ-06")
@given(st.integers(1, 20), st.lists(st.binary(max_size=50)))
def test_every_chunk_but_the_last_is_full_for_parts_of_any_size(size: int, parts: list[bytes]) -> None:
    content = b"".join(parts)
    assert cut(size, parts) == [content[start : start + size] for start in range(0, len(content), size)]


def test_full_chunks_share_the_memory_of_their_part() -> None:
    part = bytes(range(12))
    (first, second) = Chunker(4).add(part[:8])
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    assert bytes(first) + bytes(second) == part[:8]


def test_a_later_part_does_not_change_an_earlier_chunk() -> None:
    chunker = Chunker(4)
    assert list(chunker.add(b"ab")) == []
    (first,) = chunker.add(b"cde")
    assert list(chunker.add(b"fg")) == []
    assert (bytes(first), bytes(chunker.rest()), bytes(chunker.rest())) == (b"abcd", b"efg", b"")


@pytest.mark.conformance("OBJ-07")
def test_bytes_in_flight_are_limited_and_one_chunk_is_always_allowed() -> None:
    acks = ChunkAcks("B", "OBJ_B", "")
    assert acks.has_room(MAX_IN_FLIGHT + 1)
    acks.sent(MAX_IN_FLIGHT - 5)
    assert acks.has_room(5)
    assert not acks.has_room(6)
    acks.stored(MAX_IN_FLIGHT - 5, PubAck(stream="OBJ_B", sequence=3))
    assert acks.has_room(MAX_IN_FLIGHT + 1)
    assert (acks.acknowledged, acks.size, acks.chunks) == (MAX_IN_FLIGHT - 5, MAX_IN_FLIGHT - 5, 1)
    for _ in range(1000):
        assert acks.has_room(1)
        acks.sent(1)
    assert not acks.has_room(1)


@pytest.mark.conformance("OBJ-08", "OBJ-27")
def test_acknowledgements_of_other_streams_domains_and_orders_are_refused() -> None:
    acks = ChunkAcks("B", "OBJ_B", "hub")
    acks.sent(1)
    acks.sent(1)
    acks.stored(1, PubAck(stream="OBJ_B", sequence=3, domain="hub"))
    with pytest.raises(ObjectIncompleteError):
        acks.stored(1, PubAck(stream="OBJ_B", sequence=3, domain="hub"))
    with pytest.raises(InvalidAckError):
        acks.stored(1, PubAck(stream="OTHER", sequence=4, domain="hub"))
    with pytest.raises(WrongDomainError):
        acks.stored(1, PubAck(stream="OBJ_B", sequence=4, domain="leaf"))
    ChunkAcks("B", "OBJ_B", None).stored(1, PubAck(stream="OBJ_B", sequence=4, domain="leaf"))
