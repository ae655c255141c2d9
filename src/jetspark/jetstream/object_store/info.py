"""The description of an object, which is stored as JSON (ADR-20), and digests of content.

Other clients write and read the same JSON. Fields that this version does not know are kept if an object is changed.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from jetspark.jetstream.codec import JsonStruct, build, encode, to_builtins
from jetspark.jetstream.errors import BadObjectError
from jetspark.jetstream.object_store.names import is_nuid
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import Timestamp
from jetspark.wire.untrusted import decode_json, quote

__all__ = [
    "ObjectInfo",
    "ObjectLink",
    "ObjectOptions",
    "digest_text",
    "encode_info",
    "read_info",
    "same_digest",
    "stored_info",
]

_REVISION: Final = "$revision"
_MTIME: Final = "$mtime_ns"
_ALWAYS: Final = frozenset({"size", "chunks"})
"""Numbers that are written also if they are zero."""
_DIGEST_PREFIX: Final = "SHA-256="
_BASE64: Final = str.maketrans("-_", "+/")
_document: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)


class ObjectLink(JsonStruct):
    """The target of a link: an object, or a whole bucket."""

    bucket: str = ""
    """Bucket of the target."""
    name: str | None = None
    """Name of the object; None for a link to the bucket."""


class ObjectOptions(JsonStruct):
    """How an object is stored."""

    max_chunk_size: int | None = None
    """Bytes of each chunk but the last."""
    link: ObjectLink | None = None
    """The target, if it is a link."""


class ObjectInfo(JsonStruct):
    """The description of an object."""

    name: str = ""
    """Name."""
    description: str = ""
    """Free text."""
    headers: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Free texts by key, several for a key."""
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Free texts by key."""
    options: ObjectOptions = msgspec.field(default_factory=ObjectOptions)
    """Size of its chunks, or the target of a link."""
    bucket: str = ""
    """Name of the bucket."""
    nuid: str = ""
    """Id of its content: a new put has a new one."""
    size: int = 0
    """Bytes of its content."""
    chunks: int = 0
    """Number of messages that the content is in."""
    digest: str = ""
    """SHA-256 digest of the content: `SHA-256=` and URL-safe Base64. Empty for links and deleted objects."""
    deleted: bool = False
    """Whether it is deleted."""
    revision: int = msgspec.field(default=0, name=_REVISION)
    """Sequence of the description in the stream of the bucket; each change of it has a new one."""
    mtime_ns: int = msgspec.field(default=0, name=_MTIME)
    """When the description was stored, nanoseconds since 1970 UTC."""

    @property
    def mtime(self) -> datetime:
        """When the description was stored, as a UTC `Timestamp`: a `datetime` that keeps the nanoseconds."""
        return Timestamp.from_ns(self.mtime_ns)

    @property
    def link(self) -> ObjectLink | None:
        """The target, if it is a link."""
        return self.options.link


def encode_info(info: ObjectInfo) -> bytes:
    """Return the JSON of a description. Fields that are empty are left out.

    Raises ConfigError if a text cannot be written as UTF-8.
    """
    options = info.options
    link = options.link
    fields: dict[str, object] = {
        "name": info.name,
        "description": info.description,
        "headers": info.headers,
        "metadata": info.metadata,
        "options": {
            **({} if options.max_chunk_size is None else {"max_chunk_size": options.max_chunk_size}),
            **({} if link is None else {"link": to_builtins(link)}),
            **options.extra,
        },
        "bucket": info.bucket,
        "nuid": info.nuid,
        "size": info.size,
        "chunks": info.chunks,
        "digest": info.digest,
        "deleted": info.deleted,
    }
    present = {name: value for name, value in fields.items() if value or name in _ALWAYS}
    return encode({**present, **info.extra})


def read_info(bucket: str, subject: str, payload: bytes, revision: int, mtime_ns: int) -> ObjectInfo:
    """Read the description of an object.

    Parameters
    ----------
    bucket, subject
        The bucket that has it, and its subject.
    revision, mtime_ns
        Sequence and time of the message.

    Raises
    ------
    BadObjectError
        It is not the JSON of a description, or has no valid id of content.
    """
    where = f"{bucket}: the description on {subject!r} (sequence {revision})"
    try:
        document = decode_json(_document, payload)
        if not isinstance(document, dict):
            raise msgspec.ValidationError("it is no JSON object")
        info = build(ObjectInfo, _tolerated(document))
    except msgspec.DecodeError as problem:
        raise BadObjectError(f"{where} cannot be read: {problem}: {quote(payload)}") from None
    if not is_nuid(info.nuid):
        raise BadObjectError(f"{where} has no valid nuid: {quote(info.nuid)}")
    if info.size < 0 or info.chunks < 0:
        raise BadObjectError(f"{where} has a negative size: {info.size} bytes in {info.chunks} chunks")
    info.revision, info.mtime_ns = revision, mtime_ns
    info.bucket = info.bucket or bucket
    return info


def stored_info(bucket: str, message: StoredMessage) -> ObjectInfo:
    """Read the description of an object from a stored message. Raises BadObjectError."""
    return read_info(bucket, message.subject, message.payload, message.sequence, message.timestamp_ns)


def _tolerated(document: dict[str, object]) -> dict[str, object]:
    """Return a document without fields that clients write in different ways and nobody needs."""
    fields = {name: value for name, value in document.items() if name not in {"mtime", _REVISION, _MTIME}}
    metadata, headers = fields.get("metadata"), fields.get("headers")
    if not isinstance(metadata, Mapping) or not all(isinstance(text, str) for text in metadata.values()):
        fields.pop("metadata", None)
    if isinstance(headers, Mapping):
        fields["headers"] = {key: [text] if isinstance(text, str) else text for key, text in headers.items()}
    return fields


def digest_text(digest: bytes) -> str:
    """Return a SHA-256 digest as it is written in descriptions."""
    return _DIGEST_PREFIX + urlsafe_b64encode(digest).decode("ascii")


def same_digest(text: str, digest: bytes) -> bool:
    """Return whether the digest of a description is this one. Only the bytes count, not how they are written."""
    if text[: len(_DIGEST_PREFIX)].upper() != _DIGEST_PREFIX:
        return False
    encoded = text[len(_DIGEST_PREFIX) :].translate(_BASE64).rstrip("=")
    try:
        return b64decode(encoded + "=" * (-len(encoded) % 4), validate=True) == digest
    except (binascii.Error, ValueError):
        return False
