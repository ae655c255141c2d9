"""One read of an object without a server: which chunks must come, what is wrong if they do not, and ranges."""

from __future__ import annotations

import hashlib

import pytest

from jetspark.engine.object_read import (
    ChunkPlace,
    ChunkTable,
    ChunkTables,
    ObjectRead,
    check_digest,
    check_range,
    why_missing,
)
from jetspark.errors import DigestMismatchError, ObjectChangedError, ObjectIncompleteError
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.info import digest_text

SIZES = (100, 70, 100, 5)
WHERE = "B: object 'x'"


def places(*sizes: int, first: int = 1) -> list[ChunkPlace]:
    """Return places with the sequences first, first + 2, and so on: other messages lie between."""
    return [ChunkPlace(first + 2 * number, size) for number, size in enumerate(sizes)]


def info(nuid: str = "N", chunks: int = 4, **fields: object) -> ObjectInfo:
    return ObjectInfo(name="x", nuid=nuid, chunks=chunks, size=275, **fields)  # type: ignore[arg-type]


def test_a_read_is_complete_with_all_chunks_and_bytes() -> None:
    read = ObjectRead(WHERE, 4, 275)
    assert read.take(places(*SIZES[:3])) == 3
    assert (read.complete, read.chunks_left, read.bytes_left) == (False, 1, 5)
    assert read.next_sequence == 6
    assert read.take(places(5, 9, 9, first=7)) == 1  # what follows is no part of it
    assert read.complete
    assert read.take(places(9)) == 0


def test_an_empty_object_is_complete_at_once() -> None:
    assert ObjectRead(WHERE, 0, 0).complete


def test_bytes_without_chunks_are_incomplete_at_once() -> None:
    with pytest.raises(ObjectIncompleteError, match="5 bytes in 0 chunks"):
        ObjectRead(WHERE, 0, 5)


@pytest.mark.parametrize("sizes", [(100, 70, 100, 4), (100, 70, 100, 6), (276,), (100, 176)])
def test_a_wrong_sum_is_noticed_as_soon_as_it_shows(sizes: tuple[int, ...]) -> None:
    read = ObjectRead(WHERE, 4, 275)
    assert read.take(places(*sizes[:-1])) == len(sizes) - 1
    with pytest.raises(ObjectIncompleteError, match="275 bytes in 4 chunks"):
        read.take(places(sizes[-1]))


def test_a_missing_chunk_is_not_replaced_by_the_next_of_the_same_size() -> None:
    read = ObjectRead(WHERE, 2, 20, [3, 5])
    assert read.next_sequence == 3
    with pytest.raises(ObjectIncompleteError, match="is gone"):
        read.take([ChunkPlace(3, 10), ChunkPlace(7, 10)])


def test_why_chunks_are_missing() -> None:
    expected = {
        (None, 4): ObjectChangedError,
        ("deleted", 0): ObjectChangedError,
        ("replaced", 4): ObjectChangedError,
        ("same", 3): ObjectIncompleteError,
        ("same", 0): ObjectIncompleteError,
        ("same", 4): type(None),  # the replica has not copied them yet
    }
    current = {None: None, "deleted": info(deleted=True), "replaced": info("M"), "same": info()}
    found = {(state, stored): type(why_missing(WHERE, info(), current[state], stored)) for state, stored in expected}
    assert found == expected


def test_the_digest_is_compared() -> None:
    digest = hashlib.sha256(b"abc").digest()
    check_digest(WHERE, info(digest=digest_text(digest)), digest)
    for other in (digest_text(bytes(32)), "", "SHA-256=", "MD5=AAAA"):
        with pytest.raises(DigestMismatchError):
            check_digest(WHERE, info(digest=other), digest)


def test_a_range_is_the_slice_of_the_content() -> None:
    content = [bytes([number]) * size for number, size in enumerate(SIZES)]
    table = ChunkTable()
    table.add(places(*SIZES[:1]))
    table.add(places(*SIZES[1:], first=3))
    whole = b"".join(content)
    for offset in range(280):
        for length in (None, 0, 1, 5, 69, 70, 71, 100, 170, 300):
            wanted = whole[offset:] if length is None else whole[offset : offset + length]
            found = table.find(offset, length)
            if found is None:
                assert wanted == b""
                continue
            chunks = [content[(sequence - 1) // 2] for sequence in found.sequences]
            assert sum(map(len, chunks)) == found.size
            assert b"".join(chunks)[found.skip : found.size - found.excess] == wanted
            # No chunk is read that the range does not need.
            assert found.skip < len(chunks[0])
            assert found.excess < len(chunks[-1])


def test_negative_ranges_are_refused() -> None:
    check_range(0, None)
    for offset, length in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            check_range(offset, length)


def test_an_empty_object_has_empty_ranges() -> None:
    assert ChunkTable().find(0, None) is None


def test_the_tables_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jetspark.engine.object_read._MAX_CACHED_CHUNKS", 10)

    def table(chunks: int) -> ChunkTable:
        made = ChunkTable()
        made.add(places(*range(chunks)))
        return made

    tables = ChunkTables()
    tables.put("a", table(4))
    tables.put("b", table(4))
    assert tables.get("a") is not None
    tables.put("c", table(4))
    assert [name for name in "abc" if tables.get(name)] == ["a", "c"]
    tables.put("c", table(2))  # again
    tables.put("d", table(4))
    assert [name for name in "abcd" if tables.get(name)] == ["a", "c", "d"]
    tables.put("e", table(11))  # too large to be kept
    assert [name for name in "abcde" if tables.get(name)] == ["a", "c", "d"]
    monkeypatch.setattr("jetspark.engine.object_read._MAX_CACHED_TABLES", 2)
    for name in "fgh":
        tables.put(name, table(1))
    assert [name for name in "fgh" if tables.get(name)] == ["g", "h"]
