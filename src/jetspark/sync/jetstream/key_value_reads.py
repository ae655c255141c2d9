"""The reads of a key-value bucket: single keys, many keys at one moment, watches.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.key_value_reads`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import key_value_reads as aio
from jetspark.engine.watch import READ_TIMEOUT
from jetspark.jetstream.key_value import KeyValueEntry, KeyValueSnapshot, KeyValueStatus
from jetspark.sync._handwritten.bucket_watch import KeyWatch
from jetspark.sync._handwritten.pager import Pager
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["KeyValueReads"]


@checks_arguments()
class KeyValueReads(LoopProxy):
    """The calls of a bucket that change nothing."""

    _inner: aio.KeyValueReads

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._inner.bucket

    def status(self, *, timeout: float | None = None) -> KeyValueStatus:
        """Ask the server for configuration and state of the bucket.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more (10059).
        """
        return self._call(self._inner.status(timeout=timeout))

    def get(
        self, key: str, *, revision: int | None = None, consistent: bool = False, timeout: float | None = None
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
        return self._call(self._inner.get(key, revision=revision, consistent=consistent, timeout=timeout))

    def watch(
        self,
        *filters: str,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        resume_from: int | None = None,
        timeout: float | None = None,
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
        return KeyWatch(
            self._connection,
            self._call(
                self._inner.watch(
                    *filters,
                    include_history=include_history,
                    updates_only=updates_only,
                    ignore_deletes=ignore_deletes,
                    meta_only=meta_only,
                    resume_from=resume_from,
                    timeout=timeout,
                )
            ),
        )

    def keys(self, *filters: str, timeout: float = READ_TIMEOUT) -> Pager[str]:
        """Return the keys that have a value, each once. `filters` are those of `watch`; values are not sent.

            for key in bucket.keys("users.*"):
                ...
            keys = bucket.keys().all()

        Parameters
        ----------
        timeout
            Seconds without an entry after which it gives up, and seconds to catch up with others that write.
        """
        return Pager(self._connection, self._run(lambda: self._inner.keys(*filters, timeout=timeout)))

    def entries(self, *filters: str, timeout: float = READ_TIMEOUT) -> KeyValueSnapshot:
        """Read all keys that have a value, as they were at one moment: a mapping of keys to entries.

            users = bucket.entries("users.*")
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
        return self._call(self._inner.entries(*filters, timeout=timeout))

    def get_many(self, *keys: str, at_revision: int | None = None, timeout: float | None = None) -> KeyValueSnapshot:
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
        return self._call(self._inner.get_many(*keys, at_revision=at_revision, timeout=timeout))

    def history(self, key: str, *, timeout: float = READ_TIMEOUT) -> list[KeyValueEntry]:
        """Return the revisions that are kept of a key, oldest first, markers included. It takes a filter, too.

        `timeout` is that of `keys`.

        Raises
        ------
        KeyNotFoundError
            There is no such key. For a filter the list is empty.
        """
        return self._call(self._inner.history(key, timeout=timeout))
