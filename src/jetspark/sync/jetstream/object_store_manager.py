"""The object stores of an account (ADR-20).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.object_store_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream import object_store_manager as aio
from jetspark.jetstream.object_store import ObjectStoreConfig, ObjectStoreConfigFields, ObjectStoreStatus
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.jetstream.api import JetStreamAPI
from jetspark.sync.jetstream.object_store import ObjectStore
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStoreManager"]


@checks_arguments()
class ObjectStoreManager(JetStreamAPI):
    """The calls of a context for object stores.

    A configuration is an `ObjectStoreConfig`, its fields, or both; then the fields replace those of the
    `ObjectStoreConfig`.
    """

    _inner: aio.ObjectStoreManager

    def create_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,
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
        return ObjectStore(
            self._connection, self._call(self._inner.create_object_store(config, timeout=timeout, **fields))
        )

    def update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ObjectStoreConfigFields],
    ) -> ObjectStore:
        """Change the given fields of a bucket's configuration, and keep the others.

            js.update_object_store(bucket="images", max_bytes=20_000_000)

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket of objects.
        StreamConfigError, APIError
            The change is not possible.
        """
        return ObjectStore(
            self._connection, self._call(self._inner.update_object_store(config, timeout=timeout, **fields))
        )

    def create_or_update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ObjectStoreConfigFields],
    ) -> ObjectStore:
        """Update a bucket, or create it if there is none. Parameters and errors are those of the two calls."""
        return ObjectStore(
            self._connection, self._call(self._inner.create_or_update_object_store(config, timeout=timeout, **fields))
        )

    def object_store(self, bucket: str, *, timeout: float | None = None) -> ObjectStore:
        """Return the handle of a bucket that exists.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket of objects.
        """
        return ObjectStore(self._connection, self._call(self._inner.object_store(bucket, timeout=timeout)))

    def delete_object_store(self, bucket: str, *, timeout: float | None = None) -> None:
        """Delete a bucket with all its objects.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        """
        self._call(self._inner.delete_object_store(bucket, timeout=timeout))

    def object_store_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the buckets of objects, in pages. `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.object_store_names(timeout=timeout)))

    def object_stores(self, *, timeout: float | None = None) -> ListPager[ObjectStoreStatus]:
        """List configuration and state of the buckets of objects, in pages. `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.object_stores(timeout=timeout)))
