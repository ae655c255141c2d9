"""The reads of a key-value bucket: single keys, many keys at one moment, watches."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.key_value import KeyValueCore
from jetspark.aio.jetstream._drivers.key_value_many import (
    read_at_revision,
    read_newest,
)
from jetspark.aio.jetstream._drivers.key_watch import entry_pages, key_pages, start_key_watch
from jetspark.aio.jetstream.bucket_watch import KeyWatch
from jetspark.aio.jetstream.pager import Pager
from jetspark.engine.watch import READ_TIMEOUT, WatchFields, WatchOptions
from jetspark.jetstream.errors import NoDirectGetError, TooManyResultsError
from jetspark.jetstream.key_value import KeyValueEntry, KeyValueSnapshot, KeyValueStatus
from jetspark.jetstream.key_value.names import check_filters, is_filter
from jetspark.wire.argument_types import checks_arguments

__all__ = ["KeyValueReads"]


@checks_arguments()
class KeyValueReads(HasCore[KeyValueCore]):
    """The calls of a bucket that change nothing."""

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
        core = start_key_watch(self._core, options)
        await core.wait_started()
        return KeyWatch(core)

    def keys(self, *filters: str, timeout: float = READ_TIMEOUT) -> Pager[str]:
        """Return the keys that have a value, each once. `filters` are those of `watch`; values are not sent.

            async for key in bucket.keys("users.*"):
                ...
            keys = await bucket.keys().all()

        Parameters
        ----------
        timeout
            Seconds without an entry after which it gives up, and seconds to catch up with others that write.
        """
        options = self._options(filters, ignore_deletes=True, meta_only=True)
        return Pager(partial(key_pages, self._core, options, timeout))

    async def entries(self, *filters: str, timeout: float = READ_TIMEOUT) -> KeyValueSnapshot:  # noqa: ASYNC109
        """Read all keys that have a value, as they were at one moment: a mapping of keys to entries.

            users = await bucket.entries("users.*")
            users["users.ada"].value

        Parameters
        ----------
        filters
            As for `watch`.
        timeout
            As for `keys`.

        Raises
        ------
        RequestTimeoutError
            There was no moment at which all entries were read: the server was silent, or others write too fast.
        """
        return await read_newest(self._core, self._options(filters), timeout)

    async def get_many(
        self,
        *keys: str,
        at_revision: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> KeyValueSnapshot:
        """Read some keys as they are at one moment, by one request: a mapping of keys to entries.

        Keys without a value are left out. If more than 1,024 keys match, it reads as `entries` does.

        Parameters
        ----------
        keys
            Keys, or filters as for `watch`.
        at_revision
            Read them as they were at this revision, as far as the history reaches.
        timeout
            Seconds of silence after which an answer is considered lost; None takes `timeout` of the context.

        Raises
        ------
        TooManyResultsError
            More than 1,024 keys match, with `at_revision`.
        RequestTimeoutError
            The answer stopped.
        BucketNotFoundError
            The bucket does not exist any more.
        """
        subjects = self._subjects(keys)
        seconds = self._core.js.timeout if timeout is None else timeout
        if not self._core.info.config.allow_direct and at_revision is None:
            return await read_newest(self._core, WatchOptions(subjects), READ_TIMEOUT)
        try:
            return await read_at_revision(self._core, subjects, at_revision, seconds)
        except TooManyResultsError:
            if at_revision is not None:
                raise
        except NoDirectGetError:
            await self._core.refresh(timeout)  # raises if the bucket is gone
            raise
        return await read_newest(self._core, WatchOptions(subjects), READ_TIMEOUT)

    async def history(self, key: str, *, timeout: float = READ_TIMEOUT) -> list[KeyValueEntry]:  # noqa: ASYNC109
        """Return the revisions that are kept of a key, oldest first, markers included. It takes a filter, too.

        `timeout` is that of `keys`.

        Raises
        ------
        KeyNotFoundError
            There is no such key. For a filter the list is empty.
        """
        pages = entry_pages(self._core, self._options((key,), include_history=True), timeout)
        entries = [entry async for page in pages for entry in page]
        if not entries and not is_filter(key):
            raise self._core.not_found(key)
        return entries

    def _options(self, filters: tuple[str, ...], **options: Unpack[WatchFields]) -> WatchOptions:
        return WatchOptions(self._subjects(filters), **options)

    def _subjects(self, filters: tuple[str, ...]) -> tuple[str, ...]:
        prefix = self._core.stored_prefix
        return tuple(prefix + each for each in check_filters(filters, prefix))
