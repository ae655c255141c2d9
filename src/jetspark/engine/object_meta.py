"""Changes of objects that store no content: delete, update, rename, link (ADR-20). See `object_write` for the steps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from jetspark.engine.object_write import (
    MAX_ROUNDS,
    RACE_PAUSE,
    FindMeta,
    Found,
    PurgeMeta,
    PurgeReplaced,
    Step,
    WriteMeta,
    Writing,
    exists,
)
from jetspark.jetstream.errors import BadObjectError, Error, LinkError, ObjectNotFoundError, WrongLastSequenceError
from jetspark.jetstream.object_store import ObjectInfo, ObjectLink, ObjectOptions
from jetspark.jetstream.object_store.info import encode_info
from jetspark.jetstream.object_store.names import new_nuid

__all__ = ["bucket_link", "delete_object", "object_link", "object_not_found", "update_object", "write_link"]

Change: TypeAlias = Callable[[Found], ObjectInfo | None]
"""Returns the description to write for the present one, None if it stays; raises if there is none to write."""


def delete_object(bucket: str, name: str) -> Writing:
    """Mark an object as deleted, then remove its chunks (OBJ-21). Nothing is written if it is deleted already.

    Raises
    ------
    ObjectNotFoundError
        There was never such an object.
    """

    def deleted(found: Found) -> ObjectInfo | None:
        info = _readable(bucket, name, found)
        return None if info.deleted else info.replace(deleted=True, size=0, chunks=0, digest="")

    before: Found = yield FindMeta(name)
    replaced, info = yield from _change(name, before, deleted)
    if replaced is not None and replaced.chunks:
        yield PurgeReplaced(replaced.nuid)
    return info


def update_object(bucket: str, name: str, new_name: str, changes: dict[str, object]) -> Writing:
    """Change the description of an object; its content stays (OBJ-20).

    With another name, the new description is written first, and then the old one is removed.

    Raises
    ------
    ObjectNotFoundError
        There is no such object, or it is deleted.
    ObjectExistsError
        There is an object of the new name.
    """

    def updated(found: Found) -> ObjectInfo:
        info = _readable(bucket, name, found)
        if info.deleted:
            raise object_not_found(bucket, name, info)
        return info.replace(**changes)

    before: Found = yield FindMeta(name)
    if new_name == name:
        return (yield from _change(name, before, updated))[1]
    renamed = updated(before).replace(name=new_name)

    def at_new_name(found: Found) -> ObjectInfo:
        if found.live is not None:
            raise exists(renamed)
        return renamed

    target: Found = yield FindMeta(new_name)
    _, info = yield from _change(new_name, target, at_new_name)
    yield PurgeMeta(name, before.revision)
    return info


def write_link(link: ObjectInfo) -> Writing:
    """Store a link (OBJ-22). It replaces a link or a deleted object of that name.

    Raises
    ------
    ObjectExistsError
        There is an object of that name that is no link.
    """

    def linked(found: Found) -> ObjectInfo:
        if found.live is not None and found.live.link is None:
            raise exists(link)
        return link

    before: Found = yield FindMeta(link.name)
    return (yield from _change(link.name, before, linked))[1]


def object_link(bucket: str, name: str, target: ObjectInfo) -> ObjectInfo:
    """Return a new link to an object.

    Raises
    ------
    LinkError
        The target is deleted, is a link, or is no description of an object.
    """
    if target.deleted:
        raise LinkError(f"{bucket}: {name!r} cannot be a link to {target.name!r}, which is deleted")
    if target.link is not None:
        raise LinkError(f"{bucket}: {name!r} cannot be a link to {target.name!r}, which is a link itself")
    if not target.name or not target.bucket:
        raise LinkError(f"{bucket}: {name!r} cannot be a link: the description of its target has no name or no bucket")
    return _link(bucket, name, ObjectLink(bucket=target.bucket, name=target.name))


def bucket_link(bucket: str, name: str, target: str) -> ObjectInfo:
    """Return a new link to a bucket."""
    return _link(bucket, name, ObjectLink(bucket=target))


def object_not_found(bucket: str, name: str, info: ObjectInfo | None = None) -> ObjectNotFoundError:
    """Return the error for an object that does not exist, or is deleted."""
    what = f"there is no object {name!r}" if info is None else f"object {name!r} is deleted"
    return ObjectNotFoundError(f"{bucket}: {what}", bucket=bucket, name=name)


def _link(bucket: str, name: str, link: ObjectLink) -> ObjectInfo:
    return ObjectInfo(name=name, bucket=bucket, nuid=new_nuid(), options=ObjectOptions(link=link))


def _readable(bucket: str, name: str, found: Found) -> ObjectInfo:
    if found.info is not None:
        return found.info
    if found.revision:
        raise BadObjectError(f"{bucket}: the description of object {name!r} cannot be read; put the object again")
    raise object_not_found(bucket, name)


def _change(name: str, before: Found, change: Change) -> Generator[Step, Any, tuple[ObjectInfo | None, ObjectInfo]]:
    """Write a description that depends on the present one, again and again while others write it.

    Return the description that it has replaced, and the new one.
    """
    unknown: WriteMeta | None = None  # a write without an answer
    for _ in range(MAX_ROUNDS):
        written = change(before)
        if written is None:
            assert before.info is not None
            return None, before.info
        write = WriteMeta(written, before.revision)
        try:
            revision: int = yield write
        except WrongLastSequenceError as error:
            refusal: Error = error
        except Error as error:
            if not error.outcome_unknown or unknown is not None:
                raise
            refusal, unknown = error, write
        else:
            return before.info, written.replace(revision=revision)
        newest: Found = yield FindMeta(name)
        if unknown is not None and newest.revision > unknown.expected and _is_stored(newest, unknown.info):
            return before.info, unknown.info.replace(revision=newest.revision)
        if newest.revision == before.revision and unknown is None:
            newest = yield FindMeta(name, pause=RACE_PAUSE)
        before = newest
    raise refusal


def _is_stored(found: Found, written: ObjectInfo) -> bool:
    return found.info is not None and encode_info(found.info) == encode_info(written)
