"""One bucket of objects over a JetStream context: its subjects, and the descriptions of its objects."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from jetspark.aio.jetstream._drivers.buckets import BucketCore
from jetspark.aio.jetstream._drivers.publish_request import publish
from jetspark.aio.jetstream.async_publisher import AsyncPublisher
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.object_chunks import check_ack
from jetspark.engine.object_meta import object_not_found
from jetspark.engine.object_read import ChunkTables
from jetspark.engine.object_write import Found
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.engine.retry import RetryPolicy
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import (
    BadObjectError,
    Error,
    MessageNotFoundError,
    NoStreamResponseError,
)
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.config import check_stream
from jetspark.jetstream.object_store.info import encode_info, stored_info
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject
from jetspark.jetstream.publish import MAX_SEQUENCE, publish_headers

__all__ = ["HasBucket", "ObjectStoreCore"]

_META_HEADERS: Final = publish_headers(None, {"rollup": "sub", "expected_last_subject_sequence": MAX_SEQUENCE})
"""The longest headers of a description."""
_UNLIMITED: Final = 1 << 30
"""Publishes of all puts together; each put has limits of its own."""
_PURGE_PAUSE: Final = 0.1
"""Seconds before a purge is sent again."""


class HasBucket(Protocol):
    """A handle of a bucket, of either front."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""


class ObjectStoreCore(BucketCore):
    """The core of an object store's handle.

    Attributes
    ----------
    prefix
        The part that all subjects of the bucket begin with; a mirror has the subjects of its origin.
    domain
        Domain of the bucket that takes the writes; None if it is not known.
    chunk_tables
        The chunks of the objects of which ranges were read.
    """

    def __init__(self, js: JetStreamCore, info: StreamInfo) -> None:
        BucketCore.__init__(self, js, check_stream(info.config), info)
        mirror = info.config.mirror
        self.prefix = OBJECTS.subjects_of(OBJECTS.origin_of(self.bucket, mirror))
        self.domain = info.domain if mirror is None or mirror.external is None else None
        self.chunk_tables = ChunkTables()
        self._publisher: tuple[float, AsyncPublisher] | None = None

    @property
    def meta_subjects(self) -> tuple[str, ...]:
        """Filters of the descriptions of all objects."""
        return (f"{self.prefix}M.>",)

    def meta_subject(self, name: str) -> str:
        """Return the subject of an object's description. Raises InvalidObjectNameError."""
        return meta_subject(self.prefix, name)

    def chunk_subject(self, nuid: str) -> str:
        """Return the subject of the chunks of an object."""
        return chunk_subject(self.prefix, nuid)

    async def find_info(self, name: str, timeout: float | None, *, consistent: bool = False) -> ObjectInfo | None:  # noqa: ASYNC109
        """Return the description of an object, also of a deleted one; None if there is none.

        Parameters
        ----------
        consistent
            Ask the leader. Without it, any replica may answer, and the last changes may be missing.

        Raises
        ------
        BadObjectError
            It cannot be read.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        try:
            message = await self.get_message(self.meta_subject(name), consistent=consistent, timeout=timeout)
        except MessageNotFoundError:
            return None
        return stored_info(self.bucket, message)

    async def get_info(self, name: str, timeout: float | None, *, show_deleted: bool = False) -> ObjectInfo:  # noqa: ASYNC109
        """Return the description of an object; see `ObjectStore.get_info`."""
        info = await self.find_info(name, timeout)
        if info is None or (info.deleted and not show_deleted):
            raise object_not_found(self.bucket, name, info)
        return info

    # -- writes --------------------------------------------------------------------------------------------------

    def check_info(self, info: ObjectInfo) -> None:
        """Check a description before anything is sent.

        Raises
        ------
        InvalidObjectNameError, ConfigError
            The name cannot be used, or a text cannot be written as UTF-8.
        MaxPayloadError
            The description is too large for one message.
        """
        subject, payload = self.meta_subject(info.name), encode_info(info)
        self.js.connection.outbound.encode(subject, payload, "", _META_HEADERS)

    async def find_meta(self, name: str, timeout: float, *, consistent: bool) -> Found:  # noqa: ASYNC109
        """Return the description that a write would replace. One that cannot be read is replaced, too."""
        try:
            message = await self.get_message(self.meta_subject(name), consistent=consistent, timeout=timeout)
        except MessageNotFoundError:
            return Found()
        try:
            return Found(message.sequence, stored_info(self.bucket, message))
        except BadObjectError:
            return Found(message.sequence)

    async def write_meta(self, info: ObjectInfo, expected: int, timeout: float) -> int:  # noqa: ASYNC109
        """Publish a description; return its revision.

        Raises
        ------
        WrongLastSequenceError
            The revision of the description that it replaces is not `expected`.
        """
        headers = publish_headers(None, {"rollup": "sub", "expected_last_subject_sequence": expected})
        try:
            ack = await publish(self.js.connection, self.meta_subject(info.name), encode_info(info), headers, timeout)
        except NoStreamResponseError:
            await self.refresh(timeout)  # raises if the bucket is gone
            raise
        check_ack(ack, self.bucket, self.origin[0], self.domain)
        return ack.sequence

    async def purge(self, subject: str, timeout: float, before: int | None = None) -> None:  # noqa: ASYNC109
        """Remove the messages of a subject, or those before a sequence. It is repeated while it may succeed later."""
        stream, prefix = self.origin
        request = StreamPurgeRequest(stream, subject, before)
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            try:
                await self.js.request(request, max(deadline - clock(), 0), prefix)
            except Error as error:
                if not error.transient or clock() + _PURGE_PAUSE >= deadline:
                    raise
            else:
                return
            await asyncio.sleep(_PURGE_PAUSE)

    def publisher(self, ack_timeout: float) -> AsyncPublisher:
        """Return the publisher of chunks. It repeats nothing: the order and the number of chunks must be right."""
        if self._publisher is not None:
            seconds, publisher = self._publisher
            if seconds == ack_timeout and not publisher.ended:
                return publisher
        options = AsyncPublishOptions(max_pending=_UNLIMITED, ack_timeout=ack_timeout, retry=RetryPolicy(0))
        publisher = AsyncPublisher(self.js.connection, options)
        self._publisher = ack_timeout, publisher
        return publisher
