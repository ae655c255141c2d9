"""The key-value buckets of an account (ADR-8).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.key_value_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream import key_value_manager as aio
from jetspark.jetstream.key_value import KeyValueConfig, KeyValueConfigFields, KeyValueStatus
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.jetstream.api import JetStreamAPI
from jetspark.sync.jetstream.key_value import KeyValue
from jetspark.wire.argument_types import checks_arguments

__all__ = ["KeyValueManager"]


@checks_arguments()
class KeyValueManager(JetStreamAPI):
    """The calls of a context for key-value buckets.

    A configuration is a `KeyValueConfig`, its fields, or both; then the fields replace those of the `KeyValueConfig`.
    """

    _inner: aio.KeyValueManager

    def create_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[KeyValueConfigFields],
    ) -> KeyValue:
        """Create a bucket. If it exists with the same configuration, it is returned.

        Parameters
        ----------
        config, fields
            The configuration: `create_key_value(bucket="users", history=5)`.
        timeout
            Seconds for each request; None takes `timeout` of the context.

        Raises
        ------
        InvalidBucketNameError, HistoryTooLargeError, ConfigError
            The configuration is not valid. Nothing was sent.
        BucketExistsError
            A bucket of that name has another configuration (10058).
        RequiredAPILevelError
            `limit_marker_ttl` is given, and the server is too old for it.
        StreamConfigError, APIError
            The server refuses the configuration.
        """
        return KeyValue(self._connection, self._call(self._inner.create_key_value(config, timeout=timeout, **fields)))

    def update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[KeyValueConfigFields],
    ) -> KeyValue:
        """Change the given fields of a bucket's configuration, and keep the others.

            js.update_key_value(bucket="users", history=10)

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket.
        StreamConfigError, APIError
            The change is not possible.
        """
        return KeyValue(self._connection, self._call(self._inner.update_key_value(config, timeout=timeout, **fields)))

    def create_or_update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[KeyValueConfigFields],
    ) -> KeyValue:
        """Update a bucket, or create it if there is none. Parameters and errors are those of the two calls."""
        return KeyValue(
            self._connection, self._call(self._inner.create_or_update_key_value(config, timeout=timeout, **fields))
        )

    def key_value(self, bucket: str, *, timeout: float | None = None) -> KeyValue:
        """Return the handle of a bucket that exists.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket.
        """
        return KeyValue(self._connection, self._call(self._inner.key_value(bucket, timeout=timeout)))

    def delete_key_value(self, bucket: str, *, timeout: float | None = None) -> None:
        """Delete a bucket with its keys.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        """
        self._call(self._inner.delete_key_value(bucket, timeout=timeout))

    def key_value_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the buckets, in pages. `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.key_value_names(timeout=timeout)))

    def key_values(self, *, timeout: float | None = None) -> ListPager[KeyValueStatus]:
        """List configuration and state of the buckets, in pages. `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.key_values(timeout=timeout)))
