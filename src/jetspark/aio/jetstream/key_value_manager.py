"""The key-value buckets of an account (ADR-8)."""

from __future__ import annotations

import logging
from typing import Final, Unpack

from jetspark.aio.jetstream._drivers.buckets import create_bucket, delete_bucket, get_bucket_info, update_bucket
from jetspark.aio.jetstream._drivers.key_value import KeyValueCore
from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.key_value import KeyValue
from jetspark.aio.jetstream.pager import ListPager
from jetspark.jetstream.api import AccountInfoRequest
from jetspark.jetstream.bucket_requests import BucketListRequest, BucketNamesRequest
from jetspark.jetstream.buckets import KEY_VALUE
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.errors import BucketNotFoundError, RequiredAPILevelError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.key_value import KeyValueConfig, KeyValueConfigFields, KeyValueStatus
from jetspark.jetstream.key_value.config import MARKER_API_LEVEL, SMALL_VALUE, changed_stream_config, stream_config
from jetspark.jetstream.key_value.status import key_value_status
from jetspark.wire.argument_types import checks_arguments

__all__ = ["KeyValueManager"]

_log: Final = logging.getLogger("jetspark.key_value")


@checks_arguments()
class KeyValueManager(JetStreamAPI):
    """The calls of a context for key-value buckets.

    A configuration is a `KeyValueConfig`, its fields, or both; then the fields replace those of the `KeyValueConfig`.
    """

    async def create_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        wanted = make_config(KeyValueConfig, config, fields)
        made = stream_config(wanted)
        await self._check_level(wanted, timeout)
        if wanted.max_value_size is not None and 0 <= wanted.max_value_size < SMALL_VALUE:
            _log.warning(
                "bucket %s: max_value_size is %d, and headers count: deletions may not fit",
                wanted.bucket,
                wanted.max_value_size,
            )
        return self._open(await create_bucket(self._core, wanted.bucket, made, timeout))

    async def update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[KeyValueConfigFields],
    ) -> KeyValue:
        """Change the given fields of a bucket's configuration, and keep the others.

            await js.update_key_value(bucket="users", history=10)

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket.
        StreamConfigError, APIError
            The change is not possible.
        """
        wanted = make_config(KeyValueConfig, config, fields)
        name = KEY_VALUE.stream_of(wanted.bucket)
        found = KeyValueCore(self._core, await get_bucket_info(self._core, wanted.bucket, name, timeout))
        changed = changed_stream_config(found.info.config, wanted)
        await self._check_level(wanted, timeout)
        return self._open(await update_bucket(self._core, wanted.bucket, changed, timeout))

    async def create_or_update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[KeyValueConfigFields],
    ) -> KeyValue:
        """Update a bucket, or create it if there is none. Parameters and errors are those of the two calls."""
        wanted = make_config(KeyValueConfig, config, fields)
        try:
            return await self.update_key_value(wanted, timeout=timeout)
        except BucketNotFoundError:
            return await self.create_key_value(wanted, timeout=timeout)

    async def key_value(self, bucket: str, *, timeout: float | None = None) -> KeyValue:  # noqa: ASYNC109
        """Return the handle of a bucket that exists.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        BadBucketError
            The stream of that name is no bucket.
        """
        return self._open(await get_bucket_info(self._core, bucket, KEY_VALUE.stream_of(bucket), timeout))

    async def delete_key_value(self, bucket: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a bucket with its keys.

        Raises
        ------
        BucketNotFoundError
            There is no such bucket (10059).
        """
        await delete_bucket(self._core, bucket, KEY_VALUE.stream_of(bucket), timeout)

    def key_value_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the buckets, in pages. `timeout` is for each page."""
        return self.paginate(BucketNamesRequest(KEY_VALUE), timeout)

    def key_values(self, *, timeout: float | None = None) -> ListPager[KeyValueStatus]:
        """List configuration and state of the buckets, in pages. `timeout` is for each page."""
        return self.paginate(BucketListRequest(key_value_status), timeout)

    def _open(self, info: StreamInfo) -> KeyValue:
        return KeyValue(KeyValueCore(self._core, info))

    async def _check_level(self, wanted: KeyValueConfig, timeout: float | None) -> None:  # noqa: ASYNC109
        if wanted.limit_marker_ttl is None:
            return
        level = (await self.request(AccountInfoRequest(), timeout)).api.level
        if level < MARKER_API_LEVEL:
            raise RequiredAPILevelError(
                412, 10185, f"limit_marker_ttl needs API level {MARKER_API_LEVEL}, and the server has {level}"
            )
