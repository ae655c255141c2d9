"""The handle of a key-value bucket (ADR-8).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.key_value`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from jetspark.aio.jetstream import key_value as aio
from jetspark.engine.watch import MARKERS_KEPT, READ_TIMEOUT
from jetspark.jetstream.message_columns import ArrowStream
from jetspark.sync.jetstream.key_value_columns import KeyValueColumns
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.outbound import Payload

if TYPE_CHECKING:
    from jetspark import bulk

__all__ = ["KeyValue"]


@checks_arguments()
class KeyValue(KeyValueColumns):
    """A bucket of keys and values. Created by `create_key_value`, `key_value` and similar calls of a context.

        bucket = js.create_key_value(bucket="users")
        revision = bucket.put("ada", b"1815")
        entry = bucket.get("ada")

    A key is made of letters, digits and `- / _ = .`; dots separate its tokens. Each write gets a revision, which grows
    with every write of any key of the bucket. No call repeats a write whose outcome is unknown, unless it can tell
    that it stores nothing twice.

    In all calls, `timeout` is in seconds, and None takes `timeout` of the context.
    """

    _inner: aio.KeyValue

    def put(self, key: str, value: Payload | str, *, timeout: float | None = None) -> int:
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
        return self._call(self._inner.put(key, value, timeout=timeout))

    def create(
        self,
        key: str,
        value: Payload | str,
        *,
        ttl: timedelta | Literal["never"] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Set the value of a key that has none; return the new revision. A deleted or expired key has no value.

        Of several calls at the same time, one succeeds. If the session is lost, or no answer comes in half of the time,
        the write is repeated once with the same message id.

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
        return self._call(self._inner.create(key, value, ttl=ttl, timeout=timeout))

    def update(self, key: str, value: Payload | str, revision: int, *, timeout: float | None = None) -> int:
        """Set the value of a key if its newest revision is `revision`; return the new revision.

        If the session is lost, or no answer comes in half of the time, the write is repeated once with the same message
        id.

        Raises
        ------
        WrongLastRevisionError
            The newest revision is another one, `actual`. Nothing was stored.
        """
        return self._call(self._inner.update(key, value, revision, timeout=timeout))

    @overload
    def put_many(
        self,
        values: Mapping[str, Payload | str | None],
        *,
        revisions: Mapping[str, int] | None = None,
        atomic: bool = False,
        timeout: float | None = None,
    ) -> dict[str, int]: ...
    @overload
    def put_many(
        self,
        values: ArrowStream,
        *,
        revisions: Mapping[str, int] | None = None,
        atomic: bool = False,
        timeout: float | None = None,
    ) -> bulk.PublishReport: ...
    @overload
    def put_many(
        self,
        values: Mapping[str, Payload | str | None] | ArrowStream,
        *,
        revisions: Mapping[str, int] | None = None,
        atomic: bool = False,
        timeout: float | None = None,
    ) -> dict[str, int] | bulk.PublishReport: ...
    def put_many(
        self,
        values: Mapping[str, Payload | str | None] | ArrowStream,
        *,
        revisions: Mapping[str, int] | None = None,
        atomic: bool = False,
        timeout: float | None = None,
    ) -> dict[str, int] | bulk.PublishReport:
        """Set many keys without waiting for each; return the new revision of each key. None deletes a key.

            bucket.put_many({"ada": b"1815", "alan": None})
            bucket.put_many(frame)  # of pyarrow, pandas, polars

        Columns go over a connection of their own, in a thread, and return counts instead: `count`, `first_sequence`,
        `last_sequence`. They need the `arrow` extra.

        Parameters
        ----------
        values
            A mapping, or columns: `key` and `value` (binary or string; null deletes the key), and optionally
            `operation` (`PUT`, `DEL` or `PURGE`), `expected_revision` (null for none, 0 for a key that must not exist),
            `ttl` (a duration, or text such as `30s`), `headers` and `msg_id`. `revision` and `created` of a read are
            left out. Rows of one key keep their order. All rows are checked before the first one is sent; those of a
            `pyarrow.RecordBatchReader` batch by batch.
        revisions
            Expected newest revisions of some of the keys of a mapping; 0 for a key that must not exist.
        atomic
            Store all keys of a mapping or none: at most 1,000 keys, in a bucket with `allow_atomic`.
        timeout
            Seconds to wait for each answer; None takes `timeout` of the context.

        Raises
        ------
        WrongLastRevisionError
            A newest revision is another one. With `atomic` nothing was stored, else the other keys were; of columns,
            the rows up to that point were.
        AtomicPublishDisabledError
            `atomic` is given, and the bucket has no `allow_atomic` (10174).
        ConfigError
            A column is missing, unknown or of another type, or an option is not for columns. Nothing was sent.
        PublishRefusedError
            The server refused a row of columns for another reason; `report` says what is stored.
        Error
            As for `put`; the first error of a key is raised when all keys are answered.
        """
        return self._call(self._inner.put_many(values, revisions=revisions, atomic=atomic, timeout=timeout))

    def delete(self, key: str, *, revision: int | None = None, timeout: float | None = None) -> int:
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
        return self._call(self._inner.delete(key, revision=revision, timeout=timeout))

    def purge(
        self,
        key: str,
        *,
        revision: int | None = None,
        ttl: timedelta | Literal["never"] | None = None,
        timeout: float | None = None,
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
        return self._call(self._inner.purge(key, revision=revision, ttl=ttl, timeout=timeout))

    def purge_deletes(self, older_than: timedelta = MARKERS_KEPT, *, timeout: float = READ_TIMEOUT) -> int:
        """Remove the markers of deleted keys, and all earlier revisions of these keys; return the number of keys.

        A value that is put meanwhile stays.

        Parameters
        ----------
        older_than
            Keep markers that are younger, 30 minutes by default, so that others see the deletions. A negative time
            removes all.
        timeout
            As for `keys`.
        """
        return self._call(self._inner.purge_deletes(older_than, timeout=timeout))
