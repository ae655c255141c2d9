"""The reads of an object store: content, ranges, descriptions, watches.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.object_store_reads`: change that, then `make sync`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from jetspark.aio.jetstream import object_store_reads as aio
from jetspark.engine.watch import READ_TIMEOUT
from jetspark.jetstream.object_store import ObjectInfo, ObjectStoreStatus
from jetspark.jetstream.object_store.names import ObjectName
from jetspark.sync._handwritten.bucket_watch import ObjectWatch
from jetspark.sync._handwritten.object_reader import ObjectReader
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStoreReads"]


@checks_arguments()
class ObjectStoreReads(LoopProxy):
    """The calls of an object store that change nothing."""

    _inner: aio.ObjectStoreReads

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._inner.bucket

    def status(self, *, timeout: float | None = None) -> ObjectStoreStatus:
        """Ask the server for configuration and state of the bucket.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more (10059).
        """
        return self._call(self._inner.status(timeout=timeout))

    def get_info(self, name: ObjectName, *, show_deleted: bool = False, timeout: float | None = None) -> ObjectInfo:
        """Return the description of an object: size, digest, headers and so on.

        Parameters
        ----------
        show_deleted
            Return that of a deleted object, too; its `deleted` is true.

        Raises
        ------
        ObjectNotFoundError
            There is no such object, or it is deleted.
        InvalidObjectNameError
            The name cannot be used. Nothing was sent.
        BadObjectError
            The stored description cannot be read.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        return self._call(self._inner.get_info(name, show_deleted=show_deleted, timeout=timeout))

    def get(self, name: ObjectName, *, timeout: float = READ_TIMEOUT) -> ObjectReader:
        """Begin to read an object. Returns when its first bytes are there.

            with store.get("video.mp4") as reader:
                for chunk in reader:
                    ...

        A link to an object leads to its target, also in another bucket.

        Parameters
        ----------
        timeout
            Seconds without an answer or a chunk after which it gives up.

        Raises
        ------
        ObjectNotFoundError
            There is no such object, or it is deleted; or there is no target of the link.
        LinkError
            It is a link to a bucket or to another link.
        ObjectIncompleteError
            Chunks are missing, or their sizes are wrong.
        DigestMismatchError, ObjectChangedError, RequestTimeoutError
            As for the iteration of an `ObjectReader`.
        InvalidObjectNameError, BadObjectError, BucketNotFoundError
            As for `get_info`.
        """
        return ObjectReader(self._connection, self._call(self._inner.get(name, timeout=timeout)))

    def get_bytes(self, name: ObjectName, *, timeout: float = READ_TIMEOUT) -> bytes:
        """Return the content of an object. Parameters and errors are those of `get`."""
        return self._call(self._inner.get_bytes(name, timeout=timeout))

    def get_file(self, name: ObjectName, path: str | os.PathLike[str], *, timeout: float = READ_TIMEOUT) -> ObjectInfo:
        """Write the content of an object to a file; return the description of the object.

        It is written beside its place, and replaces the file `path` when it is complete and its digest is right. If
        the read fails, nothing is left and a former file stays.

        Parameters
        ----------
        path
            The file.
        timeout
            As for `get`.

        Raises
        ------
        OSError
            The file cannot be written.
        Error
            As for `get`.
        """
        return self._call(self._inner.get_file(name, path, timeout=timeout))

    def read_range(
        self, name: ObjectName, offset: int, length: int | None = None, *, timeout: float = READ_TIMEOUT
    ) -> bytes:
        """Return a range of an object's content, and read only the chunks that have it.

        The first range of an object also reads the sizes of all its chunks; they are kept for the next one. A range
        has no digest: its chunks and their sizes are checked.

        Parameters
        ----------
        offset
            First byte.
        length
            Bytes; None reads to the end. There are fewer at the end of the object, and none after it.
        timeout
            As for `get`.

        Raises
        ------
        ConfigError
            A number is negative. Nothing was sent.
        Error
            As for `get`.
        """
        return self._call(self._inner.read_range(name, offset, length, timeout=timeout))

    def list(self, *, show_deleted: bool = False, timeout: float = READ_TIMEOUT) -> Sequence[ObjectInfo]:
        """Return the descriptions of all objects, in the order of their last changes. No content is read.

        A description that cannot be read is left out, and an `ErrorOccurred` event reports it.

        Parameters
        ----------
        show_deleted
            Return those of deleted objects, too.
        timeout
            Seconds without a description after which it gives up, and seconds to catch up with others that write.

        Raises
        ------
        RequestTimeoutError
            The server was silent, or others write too fast.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        return self._call(self._inner.list(show_deleted=show_deleted, timeout=timeout))

    def watch(
        self,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        resume_from: int | None = None,
        timeout: float | None = None,
    ) -> ObjectWatch:
        """Watch the descriptions of objects: first the newest of each object, then each change.

        Of an object that gets another name, only the new name shows.

        Parameters
        ----------
        include_history
            Begin with all descriptions that are kept. Usually that is one for each object.
        updates_only
            Begin with the next change.
        ignore_deletes
            Leave out those of deleted objects.
        resume_from
            Begin with this revision, and return every one after it.
        timeout
            Seconds for the request that `resume_from` needs; None takes `timeout` of the context.

        Raises
        ------
        ConfigError
            A combination of options is not valid. Nothing was sent.
        RevisionError
            The bucket has not reached `resume_from`; `last` is its newest revision.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        return ObjectWatch(
            self._connection,
            self._call(
                self._inner.watch(
                    include_history=include_history,
                    updates_only=updates_only,
                    ignore_deletes=ignore_deletes,
                    resume_from=resume_from,
                    timeout=timeout,
                )
            ),
        )
