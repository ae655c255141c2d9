"""Writes of an object: which requests follow each other, also after a failure or while others write (ADR-20).

Each generator yields the next step. The front performs it and sends in the result, or throws in the error. The
generator returns the new description.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from jetspark.jetstream.errors import Error, ObjectExistsError, WrongLastSequenceError
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.names import new_nuid

__all__ = [
    "MAX_ROUNDS",
    "RACE_PAUSE",
    "CleanUp",
    "FindMeta",
    "Found",
    "PurgeMeta",
    "PurgeReplaced",
    "SendChunks",
    "Sent",
    "Step",
    "WriteMeta",
    "Writing",
    "exists",
    "put_object",
]

MAX_ROUNDS: Final = 64
"""Number of tries to write a description while others write it."""
RACE_PAUSE: Final = 0.05
"""Seconds before the next try if a write of another client is still under way (10164)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The description of an object in the bucket."""

    revision: int = 0
    """Its sequence; 0 if there is none."""
    info: ObjectInfo | None = None
    """The description; None if there is none, or if it cannot be read."""

    @property
    def live(self) -> ObjectInfo | None:
        """The description of an object that is not deleted."""
        return None if self.info is None or self.info.deleted else self.info


class Step:
    """A request. Steps that are `final` are not interrupted: a cancelled call ends after them."""

    __slots__ = ()
    final: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class FindMeta(Step):
    """Read the description of an object. Its result is `Found`."""

    name: str
    """Name of the object."""
    consistent: bool = True
    """Whether to ask the leader."""
    pause: float = 0.0
    """Seconds to wait before."""


@dataclass(frozen=True, slots=True)
class SendChunks(Step):
    """Send the content. Its result is `Sent`."""

    final: ClassVar[bool] = False

    nuid: str
    """Id of the content."""
    find: str | None = None
    """Name of the object whose description is to be read meanwhile."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The content that is stored."""

    size: int
    """Bytes."""
    chunks: int
    """Number of chunks."""
    digest: str
    """Digest as in a description."""
    found: Found | None = None
    """The description that was read meanwhile."""


@dataclass(frozen=True, slots=True)
class WriteMeta(Step):
    """Publish a description. Its result is the new revision."""

    info: ObjectInfo
    """The description."""
    expected: int
    """Revision of the description that it replaces; 0 for none."""


@dataclass(frozen=True, slots=True)
class CleanUp(Step):
    """Wait for the answers to the chunks of a failed put, then remove those that are stored."""

    nuid: str
    """Id of the content."""


@dataclass(frozen=True, slots=True)
class PurgeReplaced(Step):
    """Remove the chunks of content that no description names any more. A failure is only a warning."""

    nuid: str
    """Id of the content."""


@dataclass(frozen=True, slots=True)
class PurgeMeta(Step):
    """Remove the description of an object that has another name now. Later ones of the old name stay."""

    name: str
    """The old name."""
    revision: int
    """Revision of the description."""


Writing: TypeAlias = Generator[Step, Any, ObjectInfo]


def put_object(info: ObjectInfo, *, overwrite: bool, restartable: bool) -> Writing:
    """Store content and then its description.

    Chunks are never sent twice: their order and number must be right. So if some may be lost, all are removed, and the
    put starts again with a new id if its source can be read again.

    Parameters
    ----------
    info
        The description without id, size and digest.
    overwrite
        Whether to replace an object of that name.
    restartable
        Whether the source can be read twice.

    Raises
    ------
    ObjectExistsError
        There is such an object, and `overwrite` is false.
    WrongLastSequenceError
        Others wrote the description in each of many rounds.
    """
    found: Found | None = None
    if not overwrite:
        found = yield FindMeta(info.name, consistent=False)
        if found.live is not None:
            raise exists(info)
    tries = 2 if restartable else 1
    while True:
        tries -= 1
        nuid = new_nuid()
        try:
            sent: Sent = yield SendChunks(nuid, info.name if found is None else None)
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from _clean_up(nuid, error)
            if not tries or not isinstance(error, Error) or not error.transient:
                raise
        else:
            break
    written = info.replace(nuid=nuid, size=sent.size, chunks=sent.chunks, digest=sent.digest)
    before = sent.found or found or Found()
    return (yield from _replace(written, before, overwrite=overwrite))


def _replace(written: ObjectInfo, before: Found, *, overwrite: bool) -> Writing:
    """Write the description of new content: the last put wins, and removes the content that it replaces."""
    unknown: Error | None = None
    for _ in range(MAX_ROUNDS):
        try:
            revision: int = yield WriteMeta(written, before.revision)
        except WrongLastSequenceError as error:
            refusal: Error = error
        except Error as error:
            if unknown is not None:  # the first try may still be stored
                error.add_note(_left(written.nuid))
                raise
            if not error.outcome_unknown:
                yield from _clean_up(written.nuid, error)
                raise
            refusal = unknown = error
        else:
            break
        try:
            newest: Found = yield FindMeta(written.name)
        except Error:
            refusal.add_note(_left(written.nuid))
            raise refusal from None
        if newest.info is not None and newest.info.nuid == written.nuid:
            revision = newest.revision
            break
        if not overwrite and newest.live is not None:
            taken = exists(written)
            yield from _clean_up(written.nuid, taken)
            raise taken
        if newest.revision == before.revision and unknown is None:
            newest = yield FindMeta(written.name, pause=RACE_PAUSE)
        before = newest
    else:
        yield from _clean_up(written.nuid, refusal)
        raise refusal
    replaced = before.info
    if replaced is not None and replaced.chunks and replaced.nuid != written.nuid:
        yield PurgeReplaced(replaced.nuid)
    return written.replace(revision=revision)


def exists(info: ObjectInfo) -> ObjectExistsError:
    """Return the error for an object that exists."""
    return ObjectExistsError(f"{info.bucket}: object {info.name!r} exists", bucket=info.bucket, name=info.name)


def _clean_up(nuid: str, error: BaseException) -> Generator[Step, Any, None]:
    try:
        yield CleanUp(nuid)
    except Error as problem:
        error.add_note(f"{_left(nuid)} (the purge failed: {problem})")


def _left(nuid: str) -> str:
    return f"chunks with the nuid {nuid} may be left in the bucket; sweep removes them"
