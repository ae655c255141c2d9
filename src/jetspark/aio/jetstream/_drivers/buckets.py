"""The stream of a bucket of either kind: it is created, changed, deleted, asked for and read."""

from __future__ import annotations

from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.jetstream.api import (
    MessageGetRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamUpdateRequest,
)
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest
from jetspark.jetstream.errors import (
    BucketExistsError,
    BucketNotFoundError,
    NoDirectGetError,
    RevisionError,
    StreamNameInUseError,
    StreamNotFoundError,
)
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.stored_message import StoredMessage

__all__ = ["BucketCore", "create_bucket", "delete_bucket", "get_bucket_info", "update_bucket"]


class BucketCore:
    """The core of a bucket's handle.

    Attributes
    ----------
    js
        The context.
    bucket, stream
        Name of the bucket, and of its stream.
    info
        Configuration and state from the last answer.
    """

    def __init__(self, js: JetStreamCore, bucket: str, info: StreamInfo) -> None:
        self.js = js
        self.info = info
        self.bucket = bucket
        self.stream = info.config.name

    async def refresh(self, timeout: float | None) -> StreamInfo:  # noqa: ASYNC109
        """Ask the server for configuration and state. Raises BucketNotFoundError."""
        self.info = await get_bucket_info(self.js, self.bucket, self.stream, timeout)
        return self.info

    async def check_revision(self, revision: int, timeout: float | None) -> None:  # noqa: ASYNC109
        """Check that the bucket has reached a revision, or the one before it. Raises RevisionError."""
        last = (await self.refresh(timeout)).state.last_sequence
        if revision > last + 1:
            text = f"{self.bucket}: revision {revision} lies in the future; the newest one is {last}"
            raise RevisionError(text, revision=revision, last=last)

    @property
    def origin(self) -> tuple[str, str | None]:
        """The stream that takes the writes, and the prefix of its API."""
        mirror = self.info.config.mirror
        if mirror is None:
            return self.stream, None
        external = mirror.external
        return mirror.name, f"{external.api}." if external is not None and external.api else None

    async def get_message(
        self,
        subject: str,
        sequence: int | None = None,
        *,
        consistent: bool,
        timeout: float | None,  # noqa: ASYNC109
    ) -> StoredMessage:
        """Return the last message of a subject, or that of a sequence; from any replica, or from the leader.

        Raises
        ------
        MessageNotFoundError
            There is none.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        if self.info.config.allow_direct and not consistent:
            request: DirectGetRequest | DirectLastRequest
            if sequence is None:
                request = DirectLastRequest(self.stream, subject)
            else:
                request = DirectGetRequest(self.stream, sequence)
            try:
                return await self.js.direct_get(request, timeout)
            except NoDirectGetError:
                pass  # it was switched off, or the bucket is gone
        stream, prefix = self.origin if consistent else (self.stream, None)
        try:
            last = None if sequence is not None else subject
            return await self.js.request(MessageGetRequest(stream, sequence, last), timeout, prefix)
        except StreamNotFoundError:
            raise BucketNotFoundError(self.bucket) from None


async def get_bucket_info(js: JetStreamCore, bucket: str, stream: str, timeout: float | None) -> StreamInfo:  # noqa: ASYNC109
    """Return configuration and state of a bucket's stream. Raises BucketNotFoundError."""
    try:
        return await js.request(StreamInfoRequest(stream), timeout)
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None


async def create_bucket(js: JetStreamCore, bucket: str, made: StreamConfig, timeout: float | None) -> StreamInfo:  # noqa: ASYNC109
    """Create the stream of a bucket. If it exists with the same configuration, its state is returned.

    A bucket that differs only in the fields that older clients set otherwise is updated. The server compares: it
    accepts the creation of a stream that exists with an equal configuration.

    Raises
    ------
    BucketExistsError
        A bucket of that name has another configuration.
    """
    try:
        return await js.request(StreamCreateRequest(made), timeout)
    except StreamNameInUseError:
        found = (await get_bucket_info(js, bucket, made.name, timeout)).config
    alike = made.replace(discard=found.discard, allow_direct=found.allow_direct)
    try:
        await js.request(StreamCreateRequest(alike), timeout)
    except StreamNameInUseError:
        raise BucketExistsError(bucket) from None
    return await update_bucket(js, bucket, made, timeout)


async def update_bucket(js: JetStreamCore, bucket: str, changed: StreamConfig, timeout: float | None) -> StreamInfo:  # noqa: ASYNC109
    """Update the stream of a bucket. Raises BucketNotFoundError."""
    try:
        return await js.request(StreamUpdateRequest(changed), timeout)
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None


async def delete_bucket(js: JetStreamCore, bucket: str, stream: str, timeout: float | None) -> None:  # noqa: ASYNC109
    """Delete the stream of a bucket. Raises BucketNotFoundError."""
    try:
        await js.request(StreamDeleteRequest(stream), timeout)
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None
