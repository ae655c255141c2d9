"""Reads objects of object stores, blocking: `engine.object_read` has the rules.

The content of an object is read in chunks into one buffer, and its digest is always compared. Few chunks are read by
one batched direct get, more by a scan.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.direct_get_source import DirectGetSource
from jetspark.bulk.range_source import ReadLimits, ReadTarget
from jetspark.bulk.retry import request_with_retry
from jetspark.bulk.scan import scan
from jetspark.engine.direct_read import DIRECT_BATCH
from jetspark.engine.object_meta import object_not_found
from jetspark.engine.object_read import (
    READ_BYTES,
    REPLICA_WAIT,
    SMALL_READ,
    ChunkPlace,
    LinkTarget,
    ObjectRead,
    check_digest,
    why_missing,
)
from jetspark.engine.ranges import RangeProgress
from jetspark.jetstream import StreamInfo
from jetspark.jetstream.api import MessageGetRequest, Request, StreamInfoRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import (
    BucketNotFoundError,
    Error,
    MessageNotFoundError,
    RequestTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream.names import API_PREFIX, CONSUMER_PREFIX
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.config import check_stream
from jetspark.jetstream.object_store.info import stored_info
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject

__all__ = ["ObjectGetter", "ObjectPlace"]

R = TypeVar("R")

_COLUMNS: Final = ("sequence", "data")
_NO_END: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """An object store that is read.

    Attributes
    ----------
    bucket, stream
        Name of the bucket, and of its stream.
    subjects
        The part that all its subjects begin with; a mirror has the subjects of its origin.
    direct
        Whether it allows direct get.
    """

    bucket: str
    stream: str
    subjects: str
    direct: bool

    @classmethod
    def of(cls, info: StreamInfo) -> ObjectPlace:
        """Return the object store of a stream. Raises BadBucketError if it is none."""
        bucket = check_stream(info.config)
        subjects = OBJECTS.subjects_of(OBJECTS.origin_of(bucket, info.config.mirror))
        return cls(bucket, info.config.name, subjects, bool(info.config.allow_direct))

    @property
    def meta_subjects(self) -> str:
        """Filter of the descriptions of all objects."""
        return f"{self.subjects}M.>"

    def is_named(self, bucket: str) -> bool:
        """Return whether a link to that bucket leads here; a mirror also has the name of its origin."""
        return OBJECTS.subjects_of(bucket) in {self.subjects, OBJECTS.subjects_of(self.bucket)}


class ObjectGetter:
    """Reads objects one after the other.

    Parameters
    ----------
    connection
        Only this reader may use it.
    timeout
        Seconds to wait for each answer.
    retry_timeout
        Seconds to keep trying while the server cannot be reached.
    prefix
        Prefix of the API's subjects.
    consumer_prefix
        Beginning of the names of the consumers that are created.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 5.0,
        retry_timeout: float = 0.0,
        prefix: str = API_PREFIX,
        consumer_prefix: str = CONSUMER_PREFIX,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._retry_timeout = retry_timeout
        self._prefix = prefix
        self._consumer_prefix = consumer_prefix
        self._places: dict[str, ObjectPlace] = {}

    def open(self, bucket: str) -> ObjectPlace:
        """Return an object store. Raises BucketNotFoundError, BadBucketError, or InvalidBucketNameError."""
        if bucket not in self._places:
            try:
                info = self._ask(StreamInfoRequest(OBJECTS.stream_of(bucket)))
            except StreamNotFoundError:
                raise BucketNotFoundError(bucket) from None
            self._places[bucket] = ObjectPlace.of(info)
        return self._places[bucket]

    def find(self, place: ObjectPlace, name: str) -> ObjectInfo | None:
        """Return the description that the leader has of an object, also of a deleted one; None if there is none.

        Raises BadObjectError if it cannot be read.
        """
        request = MessageGetRequest(place.stream, last_by_subject=meta_subject(place.subjects, name))
        try:
            return stored_info(place.bucket, self._ask(request))
        except MessageNotFoundError:
            return None

    def get_info(self, place: ObjectPlace, name: str) -> ObjectInfo:
        """Return the description of an object. Raises ObjectNotFoundError, or as `find`."""
        info = self.find(place, name)
        if info is None or info.deleted:
            raise object_not_found(place.bucket, name, info)
        return info

    def follow(self, place: ObjectPlace, info: ObjectInfo) -> tuple[ObjectPlace, ObjectInfo]:
        """Return where the content of an object is, and its description: those of the target if it is a link.

        Raises
        ------
        ObjectNotFoundError
            The target does not exist.
        LinkError
            It is a link to a bucket, or to another link.
        """
        if info.link is None:
            return place, info
        target = LinkTarget(place.bucket, info.name, info.link)
        try:
            there = place if place.is_named(target.bucket) else self.open(target.bucket)
            found = self.get_info(there, target.name)
        except (LookupError, ValueError) as error:
            raise target.failed(error) from None
        target.check(found)
        return there, found

    def read(self, place: ObjectPlace, info: ObjectInfo) -> memoryview:
        """Return the content of an object. Its size is that of the description, which the caller has checked.

        Raises
        ------
        ObjectIncompleteError, DigestMismatchError
            Chunks are missing, or have other content.
        ObjectChangedError
            The object was replaced or deleted.
        RequestTimeoutError
            The replica that answers lacks chunks.
        """
        where = f"{place.bucket}: object {info.name!r}"
        read = ObjectRead(where, info.chunks, info.size)
        content = np.empty(info.size, np.uint8)
        digest = hashlib.sha256()
        waited = 0.0
        while read.chunks_left:
            with closing(self._chunks(place, info, read)) as batches:
                for batch in batches:
                    begin = info.size - read.bytes_left
                    part = _take(read, batch)
                    content[begin : begin + len(part)] = part
                    digest.update(part)
                    waited = 0.0
                    if not read.chunks_left:
                        break
            if read.chunks_left:
                self._check_there(where, place, info)
                waited += REPLICA_WAIT
                if waited > self._timeout:
                    raise RequestTimeoutError(f"{where}: the replica that answers lacks chunks for {self._timeout:g} s")
                time.sleep(REPLICA_WAIT)  # nothing reports that the replica has copied them
        check_digest(where, info, digest.digest())
        return content.data

    def _chunks(self, place: ObjectPlace, info: ObjectInfo, read: ObjectRead) -> Generator[pa.RecordBatch]:
        """Yield the chunks that come after those that were read."""
        subject = chunk_subject(place.subjects, info.nuid)
        if place.direct and read.bytes_left <= SMALL_READ and read.chunks_left <= DIRECT_BATCH:
            with suppress(Error):  # an old server, a lost session, a replica that lags: a scan finds out, and retries
                yield from self._few_chunks(place, subject, read)
            if read.complete:
                return
            request_with_retry(self._connection, lambda: None, self._retry_timeout)  # a scan needs an open connection
        with scan(
            self._connection,
            place.stream,
            subjects=(subject,),
            start_sequence=read.next_sequence or None,
            columns=_COLUMNS,
            max_bytes_in_flight=READ_BYTES,
            timeout=self._timeout,
            retry_timeout=self._retry_timeout,
            prefix=self._prefix,
            consumer_prefix=self._consumer_prefix,
        ) as batches:
            yield from batches

    def _few_chunks(self, place: ObjectPlace, subject: str, read: ObjectRead) -> Generator[pa.RecordBatch]:
        size = max(read.bytes_left, 1)  # what is waited for, before the chunks are handed out
        limits = ReadLimits(DIRECT_BATCH, size, READ_BYTES, self._timeout, self._retry_timeout)
        source = DirectGetSource(ReadTarget(self._connection, place.stream, (subject,), self._prefix, limits))
        schema = scan_schema(_COLUMNS)
        progress = RangeProgress(max(read.next_sequence, 1), _NO_END)
        try:
            source.open(progress)
            for run in source.read_messages(progress):
                yield run.to_record_batch(schema)
        finally:
            if not self._connection.closed:
                source.close()

    def _check_there(self, where: str, place: ObjectPlace, info: ObjectInfo) -> None:
        """Raise why chunks are missing; return if the leader has them."""
        current = self.find(place, info.name)
        subject = chunk_subject(place.subjects, info.nuid)
        subjects = self._ask(StreamInfoRequest(place.stream, False, subject)).state.subjects or {}
        problem = why_missing(where, info, current, subjects.get(subject, 0))
        if problem is not None:
            raise problem

    def _ask(self, request: Request[R]) -> R:
        connection = self._connection
        return request_with_retry(
            connection,
            lambda: connection.request(request, timeout=self._timeout, prefix=self._prefix),
            self._retry_timeout,
        )


def _take(read: ObjectRead, batch: pa.RecordBatch) -> memoryview:
    """Count the chunks of a record batch; return the bytes of those that belong to the read, without a copy."""
    data = batch.column("data")
    _, ends, values = data.buffers()
    ends = np.frombuffer(ends, np.int32)[data.offset : data.offset + len(data) + 1]
    sequences = batch.column("sequence").to_pylist()
    good = read.take([ChunkPlace(*each) for each in zip(sequences, np.diff(ends).tolist(), strict=True)])
    return memoryview(values)[ends[0] : ends[good]] if values is not None else memoryview(b"")
