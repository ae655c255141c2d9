"""One read of an object's content: which chunks must come, and what it means if they do not. No I/O.

A read is complete with as many chunks and bytes as the object's description says; the digest is compared after that.
Chunks that are missing have one of three reasons: the object was replaced or deleted meanwhile, the content is damaged,
or the replica that answers has not copied the newest messages yet.

A range needs the sizes of all chunks, because other clients store chunks of different sizes. A read of their headers
brings them. They belong to the id of the content, so they are kept for the next range.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jetspark.jetstream.errors import (
    BucketNotFoundError,
    ConfigError,
    DigestMismatchError,
    Error,
    LinkError,
    ObjectChangedError,
    ObjectIncompleteError,
    ObjectNotFoundError,
)
from jetspark.jetstream.object_store import ObjectInfo, ObjectLink
from jetspark.jetstream.object_store.info import same_digest

__all__ = [
    "READ_BYTES",
    "READ_HEARTBEAT",
    "REPLICA_WAIT",
    "SMALL_READ",
    "ChunkPlace",
    "ChunkTable",
    "ChunkTables",
    "LinkTarget",
    "ObjectRange",
    "ObjectRead",
    "check_digest",
    "check_range",
    "why_missing",
]

READ_BYTES: Final = 8 << 20
"""Bytes that the server may send before the program takes them."""
READ_HEARTBEAT: Final = 1.0
"""Seconds of silence after which the server says that it has nothing to send: then chunks are missing."""
REPLICA_WAIT: Final = 0.25
"""Seconds until chunks are requested again that the leader has and a replica has not."""
SMALL_READ: Final = 1 << 20
"""Most bytes that are read by one request, without a consumer."""
_MAX_CACHED_CHUNKS: Final = 1 << 18
_MAX_CACHED_TABLES: Final = 256


class ChunkPlace(NamedTuple):
    """Where a chunk is, and its size."""

    sequence: int
    size: int


class ObjectRead:
    """Progress of a read of consecutive chunks.

    Parameters
    ----------
    where
        Names the object in errors.
    chunks, size
        Number of chunks, and the sum of their bytes.
    sequences
        Sequences of the chunks, if they are known.

    Attributes
    ----------
    next_sequence
        The sequence after the last chunk; 0 before the first.

    Raises
    ------
    ObjectIncompleteError
        There are bytes and no chunks.
    """

    def __init__(self, where: str, chunks: int, size: int, sequences: Sequence[int] = ()) -> None:
        self.next_sequence = sequences[0] if sequences else 0
        self._where = where
        self._chunks = self.chunks_left = chunks
        self._size = self.bytes_left = size
        self._sequences = sequences
        self._check()

    @property
    def complete(self) -> bool:
        """Whether all chunks have come."""
        return not self.chunks_left

    def take(self, places: Sequence[ChunkPlace]) -> int:
        """Count chunks; return how many belong to the read: those after its end do not.

        Raises
        ------
        ObjectIncompleteError
            The sizes do not sum up, or a chunk is not the one that should follow.
        """
        good = min(len(places), self.chunks_left)
        if not good:
            return 0
        taken, begin = places[:good], self._chunks - self.chunks_left
        self.chunks_left -= good
        self.bytes_left -= sum(place.size for place in taken)
        self.next_sequence = taken[-1].sequence + 1
        self._check()
        if self._sequences and [place.sequence for place in taken] != list(self._sequences[begin : begin + good]):
            raise ObjectIncompleteError(f"{self._where} cannot be read: one of its chunks is gone")
        return good

    def _check(self) -> None:
        if self.bytes_left < 0 or (self.bytes_left and not self.chunks_left):
            raise ObjectIncompleteError(
                f"{self._where} cannot be read: it should have {self._size} bytes in {self._chunks} chunks, and "
                f"{self._chunks - self.chunks_left} chunks have {self._size - self.bytes_left} bytes"
            )


class LinkTarget:
    """The target of a link, and what it means if it cannot be read (OBJ-23).

    Parameters
    ----------
    bucket, name
        Bucket and name of the link.
    link
        Its target.

    Attributes
    ----------
    bucket, name
        Bucket and name of the target.

    Raises
    ------
    LinkError
        It is a link to a bucket.
    """

    def __init__(self, bucket: str, name: str, link: ObjectLink) -> None:
        self._link = bucket, name
        self._where = f"{bucket}: link {name!r}"
        if not link.name:
            raise LinkError(f"{self._where} leads to bucket {link.bucket!r}, which is no object; open the bucket")
        self.bucket, self.name = link.bucket, link.name
        self._target = f"object {link.name!r} of bucket {link.bucket!r}"

    def failed(self, error: Exception) -> Exception:
        """Return the error for one that was raised while the target was looked up."""
        if isinstance(error, ObjectNotFoundError | BucketNotFoundError):
            text = f"{self._where}: its target, {self._target}, does not exist"
            return ObjectNotFoundError(text, bucket=self._link[0], name=self._link[1])
        if isinstance(error, ValueError):
            return LinkError(f"{self._where} cannot be followed to {self._target}: {error}")
        return error

    def check(self, found: ObjectInfo) -> None:
        """Check the description of the target. Raises LinkError if it is a link."""
        if found.link is not None:
            raise LinkError(f"{self._where} leads to {self._target}, which is a link, too")


def why_missing(where: str, info: ObjectInfo, current: ObjectInfo | None, stored: int) -> Error | None:
    """Return why fewer chunks came than an object has.

    Parameters
    ----------
    where
        Names the object.
    info
        The description with which the read began.
    current
        The description that the leader has now; None if there is none.
    stored
        Number of chunks that the leader has.

    Returns
    -------
    Error | None
        ObjectChangedError or ObjectIncompleteError. None if the leader has all chunks: the replica that answered
        has not copied them yet.
    """
    if current is None or current.deleted:
        return ObjectChangedError(f"{where} was deleted while it was read")
    if current.nuid != info.nuid:
        return ObjectChangedError(f"{where} was replaced while it was read; read it again")
    if stored < info.chunks:
        return ObjectIncompleteError(f"{where} cannot be read: {stored} of its {info.chunks} chunks are there")
    return None


def check_digest(where: str, info: ObjectInfo, digest: bytes) -> None:
    """Compare the digest of the content with that of the description. Raises DigestMismatchError."""
    if not same_digest(info.digest, digest):
        what = "its digest is not that of the description" if info.digest else "the description has no digest"
        raise DigestMismatchError(f"{where}: the content cannot be trusted, {what}")


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """A range of an object's content as chunks.

    Attributes
    ----------
    sequences
        Sequences of the chunks that have it.
    size
        Bytes of these chunks.
    skip, excess
        Bytes before the range in the first chunk, and bytes after it in the last one.
    """

    sequences: Sequence[int]
    size: int
    skip: int
    excess: int


class ChunkTable:
    """Sequences and sizes of all chunks of an object."""

    def __init__(self) -> None:
        self._sequences = array("Q")
        self._ends = array("Q")  # bytes up to the end of each chunk

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, places: Sequence[ChunkPlace]) -> None:
        """Add the next chunks."""
        end = self._ends[-1] if self._ends else 0
        for sequence, size in places:
            end += size
            self._sequences.append(sequence)
            self._ends.append(end)

    def find(self, offset: int, length: int | None) -> ObjectRange | None:
        """Return the chunks of a range; None if it is empty."""
        size = self._ends[-1] if self._ends else 0
        end = size if length is None else min(offset + length, size)
        if offset >= end:
            return None
        first, last = bisect_right(self._ends, offset), bisect_left(self._ends, end)
        begin = self._ends[first - 1] if first else 0
        chunks = self._sequences[first : last + 1]
        return ObjectRange(chunks, self._ends[last] - begin, offset - begin, self._ends[last] - end)


class ChunkTables:
    """The tables of the objects of which ranges were read last. The memory is bounded."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, ChunkTable] = OrderedDict()
        self._chunks = 0

    def get(self, nuid: str) -> ChunkTable | None:
        """Return the table of a content, if it is known."""
        table = self._tables.get(nuid)
        if table is not None:
            self._tables.move_to_end(nuid)
        return table

    def put(self, nuid: str, table: ChunkTable) -> None:
        """Keep the table of a content; those that were not used for the longest time are dropped."""
        if len(table) > _MAX_CACHED_CHUNKS:
            return
        if (former := self._tables.pop(nuid, None)) is not None:
            self._chunks -= len(former)
        self._tables[nuid] = table
        self._chunks += len(table)
        while self._chunks > _MAX_CACHED_CHUNKS or len(self._tables) > _MAX_CACHED_TABLES:
            self._chunks -= len(self._tables.popitem(last=False)[1])


def check_range(offset: int, length: int | None) -> None:
    """Check a range. Raises ConfigError if a number is negative."""
    if offset < 0 or (length is not None and length < 0):
        raise ConfigError(f"offset and length of a range must not be negative: {offset}, {length}")
