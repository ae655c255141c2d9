"""The chunks of an object that is put: content is cut into them, and their acknowledgements are checked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from jetspark.jetstream.errors import InvalidAckError, ObjectIncompleteError, WrongDomainError
from jetspark.jetstream.info import PubAck
from jetspark.wire.outbound import Payload

__all__ = ["CHUNK_SIZE", "MAX_IN_FLIGHT", "ORPHANS_KEPT", "ChunkAcks", "Chunker", "check_ack"]

CHUNK_SIZE: Final = 128 * 1024
"""Default bytes of a chunk."""
MAX_IN_FLIGHT: Final = 8 * 1024 * 1024
"""Maximum bytes of the chunks of one put without an acknowledgement."""
ORPHANS_KEPT: Final = timedelta(hours=1)
"""Age of its last chunk up to which content without a description is kept: its put may still run."""
_MAX_PENDING: Final = 1000
"""Maximum number of such chunks."""


class Chunker:
    """Cuts content into chunks of one size, whatever the sizes of its parts. Only the last chunk is smaller.

    Parameters
    ----------
    size
        Bytes of a chunk.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._begun = bytearray()

    def add(self, part: Payload) -> Iterator[Payload]:
        """Yield the chunks that are full with this part. They share its memory as far as possible."""
        view = memoryview(part)
        start = 0
        if self._begun:
            start = self._size - len(self._begun)
            self._begun += view[:start]
            if len(self._begun) < self._size:
                return
            full, self._begun = self._begun, bytearray()
            yield full
        while len(view) - start >= self._size:
            yield view[start : start + self._size]
            start += self._size
        self._begun += view[start:]

    def rest(self) -> Payload:
        """Return the last chunk, empty if there is none."""
        rest, self._begun = self._begun, bytearray()
        return rest


def check_ack(ack: PubAck, bucket: str, stream: str, domain: str | None) -> None:
    """Check that the bucket has stored a message, and not another stream or a bucket of another domain.

    Parameters
    ----------
    domain
        Domain of the bucket; None if it is not known.

    Raises
    ------
    WrongDomainError, InvalidAckError
        Another one has stored it.
    """
    if domain is not None and ack.domain != domain:
        raise WrongDomainError(
            f"{bucket}: a bucket of domain {ack.domain!r} has answered, not that of domain {domain!r}; the subjects of "
            f"objects have no domain, so a bucket of the same name stores them, too: rename one of the two",
            bucket=bucket,
            expected=domain,
            actual=ack.domain,
        )
    if ack.stream != stream:
        raise InvalidAckError(f"{bucket}: stream {ack.stream!r} has answered, not {stream!r}")


class ChunkAcks:
    """Counts the chunks of one put and their acknowledgements.

    Attributes
    ----------
    size, chunks
        Bytes and number of the chunks that were sent.
    acknowledged
        Bytes of those that are stored.
    """

    def __init__(self, bucket: str, stream: str, domain: str | None) -> None:
        self._where = bucket, stream, domain
        self.size = self.chunks = self.acknowledged = 0
        self._pending = 0
        self._last = 0

    def has_room(self, size: int) -> bool:
        """Return whether a chunk of that size may be sent now. One chunk may always be in flight."""
        in_flight = self.size - self.acknowledged
        return not self._pending or (in_flight + size <= MAX_IN_FLIGHT and self._pending < _MAX_PENDING)

    def sent(self, size: int) -> None:
        """Count a chunk that was sent."""
        self.size += size
        self.chunks += 1
        self._pending += 1

    def stored(self, size: int, ack: PubAck) -> None:
        """Count the acknowledgement of the next chunk.

        Raises
        ------
        WrongDomainError, InvalidAckError
            Another bucket has stored it.
        ObjectIncompleteError
            The chunks are not stored in the order in which they were sent.
        """
        check_ack(ack, *self._where)
        if ack.sequence <= self._last:
            raise ObjectIncompleteError(
                f"{self._where[0]}: chunk {self.chunks - self._pending} is stored at sequence {ack.sequence}, after a "
                f"chunk at {self._last}"
            )
        self._last = ack.sequence
        self.acknowledged += size
        self._pending -= 1
