"""One bucket over a JetStream context: reads and writes of single keys."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from jetspark.aio.jetstream._drivers.buckets import BucketCore
from jetspark.aio.jetstream._drivers.publish_request import publish
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.key_value_write import ReadNewest, Step, Write
from jetspark.jetstream.errors import (
    ConfigError,
    Error,
    KeyDeletedError,
    KeyNotFoundError,
    MessageNotFoundError,
    MessageSizeExceedsMaximumError,
    NoStreamResponseError,
    ValueTooLargeError,
    WrongLastRevisionError,
    WrongLastSequenceError,
)
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.key_value.config import check_stream
from jetspark.jetstream.key_value.entry import MARKER_HEADERS, KeyValueEntry, KeyValueOperation, stored_entry
from jetspark.jetstream.key_value.names import check_key, key_subjects
from jetspark.jetstream.publish import PublishFields, publish_headers
from jetspark.wire.headers import HeadersLike, encode_header_block
from jetspark.wire.outbound import Payload

__all__ = ["KeyValueCore", "KeyWrite", "as_bytes", "ttl_field"]

KeyWrite = tuple[str, Payload, HeadersLike | None]
"""A key, its value, and the headers of the message."""
_MIN_TTL: Final = timedelta(seconds=1)


class KeyValueCore(BucketCore):
    """The core of a bucket's handle.

    Attributes
    ----------
    stored_prefix, write_prefix
        The subjects up to the key, of stored entries and of writes.
    """

    def __init__(self, js: JetStreamCore, info: StreamInfo) -> None:
        BucketCore.__init__(self, js, check_stream(info.config), info)
        self.stored_prefix, self.write_prefix = key_subjects(self.bucket, info.config.mirror, js.prefix)

    # -- reads ---------------------------------------------------------------------------------------------------

    async def get(
        self,
        key: str,
        revision: int | None,
        *,
        consistent: bool,
        timeout: float | None,  # noqa: ASYNC109
    ) -> KeyValueEntry:
        """Return the newest entry of a key, or that of a revision; see `KeyValue.get`."""
        subject = self.stored_prefix + check_key(key, self.stored_prefix)
        if revision is not None and revision < 1:
            raise ConfigError(f"revision must be positive, not {revision}")
        try:
            message = await self.get_message(subject, revision, consistent=consistent, timeout=timeout)
        except MessageNotFoundError:
            message = None
        if message is None or message.subject != subject:
            raise self.not_found(key, revision)
        entry = stored_entry(self.bucket, self.stored_prefix, message)
        if entry.is_marker:
            raise KeyDeletedError(entry, revision)
        return entry

    def not_found(self, key: str, revision: int | None = None) -> KeyNotFoundError:
        """Return the error for a key that does not exist."""
        where = "" if revision is None else f" in revision {revision}"
        text = f"{self.bucket}: there is no key {key!r}{where}"
        return KeyNotFoundError(text, bucket=self.bucket, key=key, revision=revision)

    async def newest(self, subject: str, timeout: float) -> KeyValueEntry | None:  # noqa: ASYNC109
        """Return the newest entry from the leader, None if there is none."""
        try:
            message = await self.get_message(subject, None, consistent=True, timeout=timeout)
        except MessageNotFoundError:
            return None
        return stored_entry(self.bucket, self.stored_prefix, message)

    # -- writes --------------------------------------------------------------------------------------------------

    async def write(
        self,
        key: str,
        value: Payload,
        fields: PublishFields,
        timeout: float | None,  # noqa: ASYNC109
        operation: KeyValueOperation = KeyValueOperation.PUT,
    ) -> int:
        """Publish an entry once; return its revision."""
        check_key(key, self.write_prefix, writing=True)
        seconds = self.js.timeout if timeout is None else timeout
        headers = publish_headers(MARKER_HEADERS.get(operation), fields)
        return await self._publish(key, value, headers, seconds)

    def prepare(self, key: str, value: Payload | str | None, expected: int | None) -> KeyWrite:
        """Return the parts of a message that sets a key, or deletes it if the value is None. Nothing is sent."""
        check_key(key, self.write_prefix, writing=True)
        operation = KeyValueOperation.DELETE if value is None else KeyValueOperation.PUT
        fields: PublishFields = {} if expected is None else {"expected_last_subject_sequence": expected}
        payload = b"" if value is None else as_bytes(value)
        return key, payload, publish_headers(MARKER_HEADERS.get(operation), fields)

    async def find_conflict(
        self,
        expected: Mapping[str, int],
        refusal: WrongLastSequenceError,
        timeout: float,  # noqa: ASYNC109
    ) -> WrongLastSequenceError:
        """Return the error for the first key whose newest revision is not the expected one."""
        for key, revision in expected.items():
            newest = await self.newest(self.stored_prefix + key, timeout)
            actual = 0 if newest is None else newest.revision
            if actual != revision:
                return WrongLastRevisionError(self.bucket, key, revision, actual, err_code=refusal.err_code)
        return refusal

    async def run(
        self,
        workflow: Generator[Step, Any, int],
        key: str,
        value: Payload,
        fields: PublishFields,
        timeout: float | None,  # noqa: ASYNC109
        operation: KeyValueOperation = KeyValueOperation.PUT,
    ) -> int:
        """Run a conditional write to its end; return the new revision."""
        check_key(key, self.write_prefix, writing=True)
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self.js.timeout if timeout is None else timeout)
        step = next(workflow)
        while True:
            problem: Error | None = None
            answer: object = None
            try:
                answer = await self._perform(step, key, value, fields, max(deadline - clock(), 0), operation)
            except Error as error:
                problem = error
            try:
                step = workflow.send(answer) if problem is None else workflow.throw(problem)
            except StopIteration as end:
                revision: int = end.value
                return revision

    async def _perform(
        self,
        step: Step,
        key: str,
        value: Payload,
        fields: PublishFields,
        timeout: float,  # noqa: ASYNC109
        operation: KeyValueOperation,
    ) -> object:
        match step:
            case Write(expected, msg_id, repeatable):
                seconds = timeout / 2 if repeatable else timeout
                together: PublishFields = {**fields, "expected_last_subject_sequence": expected, "msg_id": msg_id}
                headers = publish_headers(MARKER_HEADERS.get(operation), together)
                return await self._publish(key, value, headers, seconds)
            case ReadNewest():
                return await self.newest(self.stored_prefix + key, timeout)

    async def _publish(self, key: str, value: Payload, headers: HeadersLike | None, timeout: float) -> int:  # noqa: ASYNC109
        try:
            ack = await publish(self.js.connection, self.write_prefix + key, value, headers, timeout)
        except NoStreamResponseError:
            await self.refresh(timeout)  # raises if the bucket is gone
            raise
        except MessageSizeExceedsMaximumError:
            limit = self.info.config.max_msg_size or 0
            size = len(value) + (len(encode_header_block(headers)) if headers else 0)
            raise ValueTooLargeError(f"{self.bucket}: key {key!r}", size=size, limit=limit) from None
        return ack.sequence


def as_bytes(value: Payload | str) -> Payload:
    """Return a value as it is stored: text as UTF-8."""
    return value.encode() if isinstance(value, str) else value


def ttl_field(ttl: timedelta | Literal["never"] | None) -> PublishFields:
    """Return the field of a publish for a time to live. Raises ConfigError for less than a second."""
    if ttl is None:
        return {}
    if ttl != "never" and ttl < _MIN_TTL:
        raise ConfigError(f"ttl is at least a second, not {ttl}")
    return {"ttl": ttl}
