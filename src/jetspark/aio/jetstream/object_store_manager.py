"""The object stores of an account (ADR-20)."""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream._drivers.buckets import create_bucket, delete_bucket, get_bucket_info, update_bucket
from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.object_store import ObjectStore
from jetspark.aio.jetstream.pager import ListPager
from jetspark.jetstream.bucket_requests import BucketListRequest, BucketNamesRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.errors import BucketNotFoundError
from jetspark.jetstream.object_store import ObjectStoreConfig, ObjectStoreConfigFields, ObjectStoreStatus
from jetspark.jetstream.object_store.config import changed_stream_config, stream_config
from jetspark.jetstream.object_store.status import object_store_status
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStoreManager"]


@checks_arguments()
class ObjectStoreManager(JetStreamAPI):
    """The calls of a context for object stores.

    A configuration is an `ObjectStoreConfig`, its fields, or both; then the fields replace those of the
    `ObjectStoreConfig`.
    """

    async def create_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ObjectStoreConfigFields],
    ) -> ObjectStore:
        """Create a bucket of objects. If it exists with the same configuration, it is returned.

        Parameters
        ----------
        config, fields
            The configuration: `create_object_store(bucket="images", max_bytes=10_000_000)`.
        timeout
            Seconds for each request; None takes `timeout` of the context.

        Raises
        ------
        InvalidBucketNameError, ConfigError
            The configuration is not valid. Nothing was sent.
        BucketExistsError
            A bucket of that name has another configuration (10058).
        StreamConfigError, APIError
            The server refuses the configuration.
        """
        wanted = make_config(ObjectStoreConfig, config, fields)
        await create_bucket(self._core, wanted.bucket, stream_config(wanted), timeout)
        return await self.object_store(wanted.bucket, timeout=timeout)  # only this answer has the domain

    async def update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ObjectStoreConfigFields],
    ) -> ObjectStore:
        """Change the given fields of a bucket's configuration, and keep the others.

            await js.update_object_store(bucket="images", max_bytes=20_000_000)

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket of objects.
        StreamConfigError, APIError
            The change is not possible.
        """
        wanted = make_config(ObjectStoreConfig, config, fields)
        stream = OBJECTS.stream_of(wanted.bucket)
        found = ObjectStoreCore(self._core, await get_bucket_info(self._core, wanted.bucket, stream, timeout))
        changed = changed_stream_config(found.info.config, wanted)
        await update_bucket(self._core, wanted.bucket, changed, timeout)
        return await self.object_store(wanted.bucket, timeout=timeout)

    async def create_or_update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ObjectStoreConfigFields],
    ) -> ObjectStore:
        """Update a bucket, or create it if there is none. Parameters and errors are those of the two calls."""
        wanted = make_config(ObjectStoreConfig, config, fields)
        try:
            return await self.update_object_store(wanted, timeout=timeout)
        except BucketNotFoundError:
            return await self.create_object_store(wanted, timeout=timeout)

    async def object_store(self, bucket: str, *, timeout: float | None = None) -> ObjectStore:  # noqa: ASYNC109
        """Return the handle of a bucket that exists.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket of objects.
        """
        info = await get_bucket_info(self._core, bucket, OBJECTS.stream_of(bucket), timeout)
        return ObjectStore(ObjectStoreCore(self._core, info))

    async def delete_object_store(self, bucket: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a bucket with all its objects.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        """
        await delete_bucket(self._core, bucket, OBJECTS.stream_of(bucket), timeout)

    def object_store_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the buckets of objects, in pages. `timeout` is for each page."""
        return self.paginate(BucketNamesRequest(OBJECTS), timeout)

    def object_stores(self, *, timeout: float | None = None) -> ListPager[ObjectStoreStatus]:
        """List configuration and state of the buckets of objects, in pages. `timeout` is for each page."""
        return self.paginate(BucketListRequest(object_store_status), timeout)
