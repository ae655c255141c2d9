"""Puts and deletes objects of an object store, blocking: `engine.object_write` and `engine.object_meta` have the steps.

The chunks of an object go out in a pipeline that sends nothing twice. Content that is stored already is not sent.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from jetspark.bulk.connection import Connection
from jetspark.bulk.pipeline import PublishPipeline, RowsRefusedError
from jetspark.bulk.publish_acks import StreamAcks
from jetspark.bulk.publish_report import BulkPublishOptions
from jetspark.bulk.retry import request_with_retry
from jetspark.bulk.rows import Rows
from jetspark.engine.object_chunks import CHUNK_SIZE, check_ack
from jetspark.engine.object_meta import delete_object
from jetspark.engine.object_write import (
    CleanUp,
    FindMeta,
    Found,
    PurgeMeta,
    PurgeReplaced,
    SendChunks,
    Sent,
    Step,
    WriteMeta,
    Writing,
    put_object,
)
from jetspark.jetstream.api import MessageGetRequest, Request, StreamInfoRequest, StreamPurgeRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import (
    BadObjectError,
    BucketNotFoundError,
    Error,
    MessageNotFoundError,
    ObjectIncompleteError,
    ObjectNotFoundError,
    PublishTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream.names import API_PREFIX
from jetspark.jetstream.object_store import ObjectInfo, ObjectOptions
from jetspark.jetstream.object_store.config import check_stream
from jetspark.jetstream.object_store.info import digest_text, encode_info, same_digest, stored_info
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject
from jetspark.jetstream.publish import no_stream_error, publish_headers, read_pub_ack
from jetspark.wire.headers import encode_header_block, parse_status

__all__ = ["ObjectTarget", "ObjectWriter", "find_object_store", "new_object"]

R = TypeVar("R")
_log: Final = logging.getLogger("jetspark.object_store")
_NO_RESPONDERS: Final = 503


@dataclass(frozen=True, slots=True)
class ObjectTarget:
    """An object store as the target of writes.

    Attributes
    ----------
    bucket
        Name of the bucket.
    subjects
        The part that all its subjects begin with.
    stream, prefix
        Name of the stream that takes the writes, and prefix of its API: those of the origin if it is a mirror.
    domain
        Domain of the bucket; None if it is not known.
    """

    bucket: str
    subjects: str
    stream: str
    prefix: str
    domain: str | None


def find_object_store(
    connection: Connection, bucket: str, *, timeout: float = 5.0, prefix: str = API_PREFIX, retry_timeout: float = 0.0
) -> ObjectTarget:
    """Ask the server for an object store.

    Parameters
    ----------
    timeout
        Seconds to wait for an answer.
    prefix
        Prefix of the API's subjects.
    retry_timeout
        Seconds to keep trying while the server cannot be reached.

    Raises
    ------
    InvalidBucketNameError
        The name cannot be used.
    BucketNotFoundError, BadBucketError
        There is no such bucket, or its stream is no object store.
    """
    request = StreamInfoRequest(OBJECTS.stream_of(bucket))
    try:
        info = request_with_retry(
            connection, lambda: connection.request(request, timeout=timeout, prefix=prefix), retry_timeout
        )
    except StreamNotFoundError:
        raise BucketNotFoundError(bucket) from None
    check_stream(info.config)
    mirror = info.config.mirror
    subjects = OBJECTS.subjects_of(OBJECTS.origin_of(bucket, mirror))
    if mirror is None:
        return ObjectTarget(bucket, subjects, info.config.name, prefix, info.domain)
    external = mirror.external.api if mirror.external is not None else ""
    return ObjectTarget(bucket, subjects, mirror.name, f"{external}." if external else prefix, None)


class ObjectWriter:
    """Writes objects one after the other.

    Parameters
    ----------
    connection
        Only this writer may use it.
    target
        The object store.
    timeout
        Seconds to wait for each answer.
    retry_timeout
        Seconds to keep trying to write an object while the server cannot be reached.
    """

    def __init__(
        self, connection: Connection, target: ObjectTarget, *, timeout: float = 5.0, retry_timeout: float = 0.0
    ) -> None:
        self._connection = connection
        self._target = target
        self._timeout = timeout
        self._retry_timeout = retry_timeout
        self._content = memoryview(b"")
        self._chunk_size = min(CHUNK_SIZE, connection.server_info.max_payload)
        self._left: list[str] = []  # ids of failed puts, whose chunks may still be there

    def put(self, info: ObjectInfo, content: bytes | memoryview) -> bool:
        """Store an object under its name, description, headers and metadata; return whether something was stored.

        Nothing is stored if the object is there with the same content and the same description.

        Raises
        ------
        InvalidObjectNameError, MaxPayloadError
            The object cannot be written; nothing was sent.
        """
        info = info.replace(options=ObjectOptions(max_chunk_size=self._chunk_size))
        self._check(info)
        self._content = memoryview(content)
        digest = hashlib.sha256(self._content).digest()

        def put() -> bool:
            there = self._find(info.name).live
            if there is not None and same_digest(there.digest, digest) and _described(there) == _described(info):
                return False
            self._run(put_object(info, overwrite=True, restartable=True))
            while self._left:
                self._purge(chunk_subject(self._target.subjects, self._left[-1]))
                self._left.pop()
            return True

        try:
            return request_with_retry(self._connection, put, self._retry_timeout)
        finally:
            self._content = memoryview(b"")

    def delete(self, name: str) -> bool:
        """Mark an object as deleted and remove its content; return whether there was one."""
        self._check(ObjectInfo(name=name))

        def delete() -> bool:
            if self._find(name).live is None:
                return False
            try:
                self._run(delete_object(self._target.bucket, name))
            except ObjectNotFoundError:
                return False
            return True

        return request_with_retry(self._connection, delete, self._retry_timeout)

    def _check(self, info: ObjectInfo) -> None:
        meta_subject(self._target.subjects, info.name)
        self._connection.check_size(len(encode_info(info)) + _META_OVERHEAD)

    def _run(self, workflow: Writing) -> None:
        """Perform the steps of a write to its end."""
        step = next(workflow)
        while True:
            problem: Exception | None = None
            answer: object = None
            try:
                answer = self._perform(step)
            except Exception as error:  # noqa: BLE001 - the workflow decides
                problem = error
            try:
                step = workflow.send(answer) if problem is None else workflow.throw(problem)
            except StopIteration:
                return

    def _perform(self, step: Step) -> object:
        match step:
            case SendChunks(nuid, find):
                return self._send(nuid, find)
            case FindMeta(name, _, pause):
                time.sleep(pause)  # nothing reports that the write of the other client has ended
                return self._find(name)
            case WriteMeta(info, expected):
                return self._write_meta(info, expected)
            case CleanUp(nuid):
                self._left.append(nuid)
                if self._connection.closed and self._retry_timeout:
                    self._connection.reconnect()
                self._purge(chunk_subject(self._target.subjects, nuid))
                self._left.pop()
            case PurgeMeta(name, revision):
                self._purge(meta_subject(self._target.subjects, name), revision + 1)
            case PurgeReplaced(nuid):
                try:
                    self._purge(chunk_subject(self._target.subjects, nuid))
                except Error as error:
                    _log.warning(
                        "bucket %s: chunks with the nuid %s are left, sweep removes them: %s",
                        self._target.bucket,
                        nuid,
                        error,
                    )
        return None

    def _send(self, nuid: str, find: str | None) -> Sent:
        """Send the content in chunks. None of them is sent twice."""
        found = None if find is None else self._find(find)
        content, size = self._content, self._chunk_size
        count = -(-len(content) // size)
        if count:
            ends = np.minimum(np.arange(count + 1, dtype=np.int64) * size, len(content)).astype(np.int32)
            chunks = pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(content)])
            subject = chunk_subject(self._target.subjects, nuid).encode()
            rows = Rows(0, pa.repeat(pa.scalar(subject, pa.binary()), count), chunks, None)
            self._check_stored(self._publish(rows), count)
        return Sent(len(content), count, digest_text(hashlib.sha256(content).digest()), found)

    def _publish(self, rows: Rows) -> dict[str, StreamAcks]:
        streams: dict[str, StreamAcks] = {}
        settings = BulkPublishOptions(ack_timeout=self._timeout)
        pipeline = PublishPipeline(self._connection, settings, streams)
        try:
            for chunk in rows.chunks(_CHUNKS_IN_FLIGHT, settings.max_bytes_in_flight, pipeline.reply_length):
                pipeline.send(chunk)
            pipeline.finish()
        except RowsRefusedError as refused:
            raise refused.error from None
        finally:
            pipeline.close()
        return streams

    def _check_stored(self, streams: dict[str, StreamAcks], count: int) -> None:
        acks = streams.get(self._target.stream)
        if len(streams) != 1 or acks is None or acks.count != count:
            raise ObjectIncompleteError(
                f"{self._target.bucket}: the chunks were stored by {', '.join(streams) or 'no stream'}, not all by "
                f"{self._target.stream}"
            )

    def _find(self, name: str) -> Found:
        subject = meta_subject(self._target.subjects, name)
        try:
            message = self._ask(MessageGetRequest(self._target.stream, last_by_subject=subject))
        except MessageNotFoundError:
            return Found()
        try:
            return Found(message.sequence, stored_info(self._target.bucket, message))
        except BadObjectError:
            return Found(message.sequence)

    def _write_meta(self, info: ObjectInfo, expected: int) -> int:
        headers = publish_headers(None, {"rollup": "sub", "expected_last_subject_sequence": expected})
        block = encode_header_block(headers or [])
        subject = meta_subject(self._target.subjects, info.name)
        answer = self._connection.request_message(subject, encode_info(info), self._timeout, block)
        if answer is None:
            raise PublishTimeoutError(f"{self._target.bucket}: no answer to a description within {self._timeout:g} s")
        status = parse_status(answer.header) if answer.header and not answer.payload else None
        if status is not None and status.code == _NO_RESPONDERS:
            raise no_stream_error(self._target.bucket)
        ack = read_pub_ack(answer.payload, self._target.bucket)
        check_ack(ack, self._target.bucket, self._target.stream, self._target.domain)
        return ack.sequence

    def _purge(self, subject: str, before: int | None = None) -> None:
        request = StreamPurgeRequest(self._target.stream, subject, before)
        request_with_retry(self._connection, lambda: self._ask(request), self._timeout)

    def _ask(self, request: Request[R]) -> R:
        return self._connection.request(request, timeout=self._timeout, prefix=self._target.prefix)


_CHUNKS_IN_FLIGHT: Final = 64
_META_OVERHEAD: Final = 400
"""Bytes for the headers of a description, its id, digest and sizes."""


def _described(info: ObjectInfo) -> tuple[object, ...]:
    return info.description, info.headers, info.metadata


def new_object(bucket: str, name: str) -> ObjectInfo:
    """Return the description of an object without texts."""
    return ObjectInfo(bucket=bucket, name=name)
