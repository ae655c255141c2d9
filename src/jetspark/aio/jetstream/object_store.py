"""The handle of an object store (ADR-20)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from jetspark.aio.jetstream._drivers.buckets import update_bucket
from jetspark.aio.jetstream._drivers.object_put import ObjectPut, run_writing
from jetspark.aio.jetstream._drivers.object_source import ObjectSource, open_source
from jetspark.aio.jetstream._drivers.object_store import HasBucket
from jetspark.aio.jetstream._drivers.object_sweep import chunk_ids, live_ids, purge_orphans
from jetspark.aio.jetstream.object_store_reads import ObjectStoreReads
from jetspark.engine.object_chunks import CHUNK_SIZE, ORPHANS_KEPT
from jetspark.engine.object_meta import bucket_link, delete_object, object_link, update_object, write_link
from jetspark.engine.object_write import Writing, put_object
from jetspark.jetstream.errors import ConfigError, LinkError
from jetspark.jetstream.object_store import ObjectInfo, ObjectOptions
from jetspark.jetstream.object_store.names import ObjectName
from jetspark.wire.argument_types import checks_arguments, wrong_type
from jetspark.wire.headers import Headers, HeadersLike

__all__ = ["ObjectStore"]


@checks_arguments()
class ObjectStore(ObjectStoreReads):
    """A bucket of objects of any size. Created by `create_object_store`, `object_store` and similar calls of a context.

        store = await js.create_object_store(bucket="images")
        info = await store.put("cat.png", Path("cat.png"))

    The content of an object is stored in chunks. A description has its name, size and digest.

    In all calls, `timeout` is in seconds, and None takes `timeout` of the context.
    """

    def __repr__(self) -> str:
        return f"<ObjectStore {self.bucket!r}>"

    async def put(
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
        timeout: float | None = None,  # noqa: ASYNC109 (of each request and acknowledgement)
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
        core = self._core
        limit = core.js.connection.outbound.max_payload
        given = ObjectOptions() if options is None else options
        if given.link is not None:
            raise LinkError(
                f"{core.bucket}: {name!r} is put with content, so its options cannot have a link; use add_link"
            )
        if chunk_size is None:
            chunk_size = CHUNK_SIZE if given.max_chunk_size is None else given.max_chunk_size
        if not 1 <= chunk_size <= limit:
            raise ConfigError(f"chunk_size is 1 to {limit} bytes (max_payload of the server), not {chunk_size}")
        info = ObjectInfo(
            name=name,
            description=description,
            headers=Headers(headers or ()).to_dict(),
            metadata=dict(metadata or {}),
            options=given.replace(max_chunk_size=chunk_size),
            bucket=core.bucket,
        )
        core.check_info(info)
        connection = core.js.connection
        content = open_source(source, connection.reader_threads, in_threads=connection.call_from_thread is not None)
        seconds = core.js.timeout if timeout is None else timeout
        put = ObjectPut(core, content, chunk_size, progress, seconds)
        workflow = put_object(info, overwrite=overwrite, restartable=content.restartable)
        return await run_writing(core, workflow, seconds, put)

    async def put_file(
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
        timeout: float | None = None,  # noqa: ASYNC109 (of each request and acknowledgement)
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
        file = Path(path)
        return await self.put(
            file.name if name is None else name,
            file,
            description=description,
            headers=headers,
            metadata=metadata,
            chunk_size=chunk_size,
            options=options,
            overwrite=overwrite,
            progress=progress,
            timeout=timeout,
        )

    async def delete(self, name: ObjectName, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete an object: its description is marked as deleted, then its chunks are removed.

        If it is deleted already, nothing is written.

        Raises
        ------
        ObjectNotFoundError
            There was never such an object.
        StreamSealedError
            The bucket is sealed (10109).
        """
        await self._write(delete_object(self.bucket, name), name, timeout)

    async def update_meta(
        self,
        name: ObjectName,
        *,
        new_name: ObjectName | None = None,
        description: str | None = None,
        headers: HeadersLike | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (of each request)
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
        changes: dict[str, object] = {}
        if description is not None:
            changes["description"] = description
        if headers is not None:
            changes["headers"] = Headers(headers).to_dict()
        if metadata is not None:
            changes["metadata"] = dict(metadata)
        final = name if new_name is None else new_name
        self._core.check_info(ObjectInfo(name=final).replace(**changes))
        return await self._write(update_object(self.bucket, name, final, changes), name, timeout)

    async def add_link(self, name: ObjectName, info: ObjectInfo, *, timeout: float | None = None) -> ObjectInfo:  # noqa: ASYNC109
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
        link = object_link(self.bucket, name, info)
        self._core.check_info(link)
        return await self._write(write_link(link), name, timeout)

    async def add_bucket_link(self, name: ObjectName, store: HasBucket, *, timeout: float | None = None) -> ObjectInfo:  # noqa: ASYNC109
        """Store a link to a whole bucket; return the description of the link. Errors are those of `add_link`.

        Parameters
        ----------
        name
            Name of the link.
        store
            The bucket, another `ObjectStore`.
        """
        bucket = getattr(store, "bucket", None)
        if not isinstance(bucket, str):
            raise wrong_type("add_bucket_link", "store", "an ObjectStore", store)
        return await self._write(write_link(bucket_link(self.bucket, name, bucket)), name, timeout)

    async def seal(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Let the bucket take no changes any more. This cannot be undone; the bucket itself can be deleted.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more.
        """
        core = self._core
        config = (await core.refresh(timeout)).config
        core.info = await update_bucket(core.js, core.bucket, config.replace(sealed=True), timeout)

    async def sweep(
        self,
        older_than: timedelta = ORPHANS_KEPT,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (of each request)
    ) -> int:
        """Remove chunks that no object has; return the number of puts whose chunks were removed.

        A put removes its own chunks after a failure. Some are left if its program was killed, or if the server could
        not be reached.

        Parameters
        ----------
        older_than
            Keep chunks if the last one of their put is younger, an hour by default: the put may still run. A negative
            time removes all, also the chunks of puts that run.
        """
        core = self._core
        seconds = core.js.timeout if timeout is None else timeout
        found = await chunk_ids(core, timeout)  # before the list, so that a put that ends meanwhile is live
        live = await live_ids(core) if found else set()
        return await purge_orphans(core, found, live, older_than, seconds)

    async def _write(self, workflow: Writing, name: ObjectName, timeout: float | None) -> ObjectInfo:  # noqa: ASYNC109
        core = self._core
        core.meta_subject(name)  # checks the name
        return await run_writing(core, workflow, core.js.timeout if timeout is None else timeout)
