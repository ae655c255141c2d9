"""The handle of an object store (ADR-20).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.object_store`: change that, then `make sync`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta

from jetspark.aio.jetstream import object_store as aio
from jetspark.aio.jetstream._drivers.object_source import ObjectSource
from jetspark.aio.jetstream._drivers.object_store import HasBucket
from jetspark.engine.object_chunks import ORPHANS_KEPT
from jetspark.jetstream.object_store import ObjectInfo, ObjectOptions
from jetspark.jetstream.object_store.names import ObjectName
from jetspark.sync.jetstream.object_store_reads import ObjectStoreReads
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike

__all__ = ["ObjectStore"]


@checks_arguments()
class ObjectStore(ObjectStoreReads):
    """A bucket of objects of any size. Created by `create_object_store`, `object_store` and similar calls of a context.

        store = js.create_object_store(bucket="images")
        info = store.put("cat.png", Path("cat.png"))

    The content of an object is stored in chunks. A description has its name, size and digest.

    In all calls, `timeout` is in seconds, and None takes `timeout` of the context.
    """

    _inner: aio.ObjectStore

    def put(
        self,
        name: ObjectName,
        source: ObjectSource,
        *,
        description: str = "",
        headers: HeadersLike | None = None,
        metadata: Mapping[str, str] | None = None,
        chunk_size: int | None = None,
        options: ObjectOptions | None = None,
        overwrite: bool = True,
        progress: Callable[[int, int | None], object] | None = None,
        timeout: float | None = None,
    ) -> ObjectInfo:
        """Store an object; return its description. It replaces an object of that name.

        The description is stored last, so others see the new object when it is complete. Of several puts of a name at
        the same time, the last one wins. After a failure, or if the call is cancelled, the chunks that were stored are
        removed, and an object of that name stays as it is. If the session is lost, or the stream gets another leader,
        content of bytes or a path is sent once more from the beginning.

        Parameters
        ----------
        name
            Name of the object: any text that is not empty.
        source
            The content: bytes, a `Path`, a file that is open in binary mode, or an iterable of bytes. A thread reads
            files. Do not change a buffer during the call.
        description, headers, metadata
            Free texts of the description.
        chunk_size
            Bytes of each chunk but the last; 131,072 by default, at most `max_payload` of the server.
        options
            Options of another object, whose size of chunks is to be used.
        overwrite
            If false, an object of that name is an error.
        progress
            Called with the number of bytes that are stored so far, and the number of all bytes, None if that is not
            known. If it raises, the put fails with that exception.
        timeout
            Seconds for each request and each acknowledgement; the whole put may take longer.

        Raises
        ------
        InvalidObjectNameError, ConfigError
            The name, or the size of a chunk, cannot be used. Nothing was sent.
        ArgumentError
            The source is text or a text file, or yields something else than bytes.
        ObjectExistsError
            `overwrite` is false, and there is an object of that name.
        LinkError
            The options are those of a link; `add_link` makes one.
        StreamStoreFailedError
            The bucket is full (10077).
        StreamSealedError
            The bucket is sealed (10109).
        WrongDomainError
            A bucket of the same name in another domain has stored a part, too.
        BucketNotFoundError
            The bucket does not exist any more.
        PublishTimeoutError, DisconnectedError
            An acknowledgement did not come. Chunks that could not be removed are named in a note of the error.
        """
        return self._call(
            self._inner.put(
                name,
                source,
                description=description,
                headers=headers,
                metadata=metadata,
                chunk_size=chunk_size,
                options=options,
                overwrite=overwrite,
                progress=None if progress is None else self._connection.in_callback_thread(progress),
                timeout=timeout,
            )
        )

    def put_file(
        self,
        path: str | os.PathLike[str],
        *,
        name: ObjectName | None = None,
        description: str = "",
        headers: HeadersLike | None = None,
        metadata: Mapping[str, str] | None = None,
        chunk_size: int | None = None,
        options: ObjectOptions | None = None,
        overwrite: bool = True,
        progress: Callable[[int, int | None], object] | None = None,
        timeout: float | None = None,
    ) -> ObjectInfo:
        """Store a file as an object; return its description.

        Parameters
        ----------
        path
            The file.
        name
            Name of the object; None takes the name of the file, without its folder.

        Raises
        ------
        OSError
            The file cannot be read.
        Error
            As for `put`, which also explains the other parameters.
        """
        return self._call(
            self._inner.put_file(
                path,
                name=name,
                description=description,
                headers=headers,
                metadata=metadata,
                chunk_size=chunk_size,
                options=options,
                overwrite=overwrite,
                progress=None if progress is None else self._connection.in_callback_thread(progress),
                timeout=timeout,
            )
        )

    def delete(self, name: ObjectName, *, timeout: float | None = None) -> None:
        """Delete an object: its description is marked as deleted, then its chunks are removed.

        If it is deleted already, nothing is written.

        Raises
        ------
        ObjectNotFoundError
            There was never such an object.
        StreamSealedError
            The bucket is sealed (10109).
        """
        self._call(self._inner.delete(name, timeout=timeout))

    def update_meta(
        self,
        name: ObjectName,
        *,
        new_name: ObjectName | None = None,
        description: str | None = None,
        headers: HeadersLike | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ObjectInfo:
        """Change the description of an object, and keep its content; return the new description. None keeps a field.

        A rename is not atomic: first the description is written under the new name, then that under the old name is
        removed. If the second step fails, both names have the content. Do not put or delete the old name meanwhile:
        that removes the content.

        Parameters
        ----------
        new_name
            Name that the object gets.
        description, headers, metadata
            Free texts, which replace those that the description has.

        Raises
        ------
        ObjectNotFoundError
            There is no such object, or it is deleted.
        ObjectExistsError
            There is an object of the new name.
        """
        return self._call(
            self._inner.update_meta(
                name, new_name=new_name, description=description, headers=headers, metadata=metadata, timeout=timeout
            )
        )

    def add_link(self, name: ObjectName, info: ObjectInfo, *, timeout: float | None = None) -> ObjectInfo:
        """Store a link to an object, of this bucket or another one; return the description of the link.

        It replaces a link or a deleted object of that name.

        Parameters
        ----------
        name
            Name of the link.
        info
            Description of the target.

        Raises
        ------
        LinkError
            The target is deleted, or is a link. Nothing was sent.
        ObjectExistsError
            There is an object of that name that is no link.
        """
        return self._call(self._inner.add_link(name, info, timeout=timeout))

    def add_bucket_link(self, name: ObjectName, store: HasBucket, *, timeout: float | None = None) -> ObjectInfo:
        """Store a link to a whole bucket; return the description of the link. Errors are those of `add_link`.

        Parameters
        ----------
        name
            Name of the link.
        store
            The bucket, another `ObjectStore`.
        """
        return self._call(self._inner.add_bucket_link(name, store, timeout=timeout))

    def seal(self, *, timeout: float | None = None) -> None:
        """Let the bucket take no changes any more. This cannot be undone; the bucket itself can be deleted.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more.
        """
        self._call(self._inner.seal(timeout=timeout))

    def sweep(self, older_than: timedelta = ORPHANS_KEPT, *, timeout: float | None = None) -> int:
        """Remove chunks that no object has; return the number of puts whose chunks were removed.

        A put removes its own chunks after a failure. Some are left if its program was killed, or if the server could
        not be reached.

        Parameters
        ----------
        older_than
            Keep chunks if the last one of their put is younger, an hour by default: the put may still run. A negative
            time removes all, also the chunks of puts that run.
        """
        return self._call(self._inner.sweep(older_than, timeout=timeout))
