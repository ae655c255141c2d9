"""The handle of a key-value bucket (ADR-8)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Literal, Unpack

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.key_value import KeyValueCore, as_bytes, ttl_field
from jetspark.aio.jetstream._drivers.key_watch import KeyWatchCore, initial_pages, key_pages
from jetspark.aio.jetstream.key_watch import KeyWatch
from jetspark.aio.jetstream.pager import Pager
from jetspark.engine.key_value_write import create_key, update_key, write_marker
from jetspark.engine.watch import WatchFields, WatchOptions
from jetspark.jetstream.key_value import KeyValueEntry, KeyValueOperation, KeyValueStatus
from jetspark.jetstream.key_value.names import check_filters, is_filter
from jetspark.jetstream.publish import PublishFields
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.outbound import Payload

__all__ = ["KeyValue"]


@checks_arguments()
class KeyValue(HasCore[KeyValueCore]):
    """A bucket of keys and values. Created by `create_key_value`, `key_value` and similar calls of a context.

        bucket = await js.create_key_value(bucket="users")
        revision = await bucket.put("ada", b"1815")
        entry = await bucket.get("ada")

    A key is made of letters, digits and `- / _ = .`; dots separate its tokens. Each write gets a revision, which grows
    with every write of any key of the bucket. No call repeats a write whose outcome is unknown, unless it can tell
    that it stores nothing twice.

    In all calls, `timeout` is in seconds, and None takes `timeout` of the context.
    """

    def __repr__(self) -> str:
        return f"<KeyValue {self.bucket!r}>"

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._core.bucket

    async def status(self, *, timeout: float | None = None) -> KeyValueStatus:  # noqa: ASYNC109
        """Ask the server for configuration and state of the bucket.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more (10059).
        """
        return KeyValueStatus(self.bucket, await self._core.refresh(timeout))

    # -- reads ---------------------------------------------------------------------------------------------------

    async def get(
        self,
        key: str,
        *,
        revision: int | None = None,
        consistent: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> KeyValueEntry:
        """Return the newest entry of a key.

        Parameters
        ----------
        revision
            Return the entry of this revision instead.
        consistent
            Ask the leader. Without it, any replica may answer, and the last writes may be missing.

        Raises
        ------
        KeyNotFoundError
            There is no such key, or not in this revision.
        KeyDeletedError
            The key was deleted or purged, or has expired. The marker is in `entry`.
        InvalidKeyError
            The key cannot be used. Nothing was sent.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        return await self._core.get(key, revision, consistent=consistent, timeout=timeout)

    async def watch(
        self,
        *filters: str,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        resume_from: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> KeyWatch:
        """Watch keys: first the newest entry of each key, then each change.

        Parameters
        ----------
        filters
            Keys, or filters with `*` for a token and `>` for the rest, at most 256; none means all keys.
        include_history
            Begin with all revisions that are kept.
        updates_only
            Begin with the next change.
        ignore_deletes
            Leave out markers of deleted, purged and expired keys.
        meta_only
            Leave out values; `size` of an entry says how large they are.
        resume_from
            Begin with this revision, and return every revision after it.
        timeout
            Seconds for the request that `resume_from` needs; None takes `timeout` of the context.

        Raises
        ------
        InvalidKeyError, ConfigError
            A filter or a combination of options is not valid. Nothing was sent.
        RevisionError
            The bucket has not reached `resume_from`; `last` is its newest revision.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        options = self._options(
            filters,
            include_history=include_history,
            updates_only=updates_only,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            resume_from=resume_from,
        )
        if resume_from is not None:
            await self._core.check_revision(resume_from, timeout)
        core = KeyWatchCore(self._core, options)
        await core.wait_started()
        return KeyWatch(core)

    def keys(self, *filters: str) -> Pager[str]:
        """Return the keys that have a value, each once. `filters` are those of `watch`; values are not sent.

        async for key in bucket.keys("users.*"):
            ...
        keys = await bucket.keys().all()
        """
        return Pager(partial(key_pages, self._core, self._options(filters, ignore_deletes=True, meta_only=True)))

    async def history(self, key: str) -> list[KeyValueEntry]:
        """Return the revisions that are kept of a key, oldest first, markers included. It takes a filter, too.

        Raises
        ------
        KeyNotFoundError
            There is no such key. For a filter the list is empty.
        """
        pages = initial_pages(self._core, self._options((key,), include_history=True))
        entries = [entry async for page in pages for entry in page]
        if not entries and not is_filter(key):
            raise self._core.not_found(key)
        return entries

    def _options(self, filters: tuple[str, ...], **options: Unpack[WatchFields]) -> WatchOptions:
        prefix = self._core.stored_prefix
        return WatchOptions(tuple(prefix + each for each in check_filters(filters, prefix)), **options)

    # -- writes --------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: Payload | str, *, timeout: float | None = None) -> int:  # noqa: ASYNC109
        """Set the value of a key; return the new revision. Text is stored as UTF-8; an empty value is a value.

        Raises
        ------
        InvalidKeyError
            The key cannot be used. Nothing was sent.
        ValueTooLargeError
            The value is larger than `max_value_size` of the bucket.
        StreamStoreFailedError
            The bucket is full (10077).
        BucketNotFoundError
            The bucket does not exist any more.
        PublishTimeoutError, DisconnectedError
            No answer came. Whether the value is stored is not known; it is not sent again.
        """
        return await self._core.write(key, as_bytes(value), {}, timeout)

    async def create(
        self,
        key: str,
        value: Payload | str,
        *,
        ttl: timedelta | Literal["never"] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> int:
        """Set the value of a key that has none; return the new revision. A deleted or expired key has no value.

        Of several calls at the same time, one succeeds. If the answer is lost, the write is repeated once with the same
        message id.

        Parameters
        ----------
        ttl
            Time to live of the key, at least a second; the bucket needs `limit_marker_ttl`. With `never` the key also
            outlives `ttl` of the bucket.

        Raises
        ------
        KeyExistsError
            The key has a value; `actual` is its revision.
        MessageTTLDisabledError
            `ttl` is given, and the bucket has no `limit_marker_ttl` (10166).
        """
        fields = ttl_field(ttl)
        return await self._core.run(create_key(self.bucket, key), key, as_bytes(value), fields, timeout)

    async def update(
        self,
        key: str,
        value: Payload | str,
        revision: int,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> int:
        """Set the value of a key if its newest revision is `revision`; return the new revision.

        If the answer is lost, the write is repeated once with the same message id.

        Raises
        ------
        WrongLastRevisionError
            The newest revision is another one, `actual`. Nothing was stored.
        """
        return await self._core.run(update_key(self.bucket, key, revision), key, as_bytes(value), {}, timeout)

    async def delete(self, key: str, *, revision: int | None = None, timeout: float | None = None) -> int:  # noqa: ASYNC109
        """Delete a key: store a marker; return its revision. Earlier revisions stay as far as the history reaches.

        Parameters
        ----------
        revision
            Delete only if this is the newest revision.

        Raises
        ------
        WrongLastRevisionError
            The newest revision is another one, `actual`. Nothing was stored.
        """
        return await self._mark(key, KeyValueOperation.DELETE, revision, {}, timeout)

    async def purge(
        self,
        key: str,
        *,
        revision: int | None = None,
        ttl: timedelta | Literal["never"] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> int:
        """Delete a key with all its revisions: a marker replaces them; return its revision.

        Parameters
        ----------
        revision
            Purge only if this is the newest revision.
        ttl
            Time after which the marker is removed, too, at least a second; the bucket needs `limit_marker_ttl`. Known
            fault of nats-server: if an unreplicated server is killed after that, the last value may come back.

        Raises
        ------
        WrongLastRevisionError
            The newest revision is another one, `actual`. Nothing was stored.
        MessageTTLDisabledError
            `ttl` is given, and the bucket has no `limit_marker_ttl` (10166).
        """
        return await self._mark(key, KeyValueOperation.PURGE, revision, ttl_field(ttl), timeout)

    async def _mark(
        self,
        key: str,
        operation: KeyValueOperation,
        revision: int | None,
        fields: PublishFields,
        timeout: float | None,  # noqa: ASYNC109
    ) -> int:
        if revision is None:
            return await self._core.write(key, b"", fields, timeout, operation)
        return await self._core.run(write_marker(self.bucket, key, revision), key, b"", fields, timeout, operation)
