"""A key-value bucket as Arrow columns: reads, and writes of many keys. They need the `arrow` extra.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.key_value_columns`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetspark.aio.jetstream import key_value_columns as aio
from jetspark.aio.jetstream.key_value_columns import put_columns
from jetspark.payload import DecodeOptions, PayloadFormat
from jetspark.sync._handwritten.arrow import ScanReader
from jetspark.sync.jetstream.key_value_reads import KeyValueReads
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    from jetspark import bulk

__all__ = ["KeyValueColumns", "put_columns"]


@checks_arguments()
class KeyValueColumns(KeyValueReads):
    """The calls of a bucket that return columns."""

    _inner: aio.KeyValueColumns

    def to_arrow(
        self,
        *filters: str,
        history: bool = False,
        include_deletes: bool | None = None,
        start_revision: int | None = None,
        at_revision: int | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        retry_timeout: float = 30.0,
        timeout: float | None = None,
    ) -> bulk.EntryTable:
        """Read the entries as they were at one moment, as Arrow columns. Needs the `arrow` extra.

            users = bucket.to_arrow("users.*")
            frame = users.to_pandas()

        The number of keys is not limited. It reads over a connection of its own, in a thread, and leaves nothing on the
        server. The result has `table`, `revision`, `to_pandas` and `to_polars`.

        Parameters
        ----------
        filters
            As for `watch`.
        history
            Read all revisions that are kept, in place of the newest entry of each key.
        include_deletes
            Return markers of deleted, purged and expired keys, too. None does so with `history`.
        start_revision
            Read from this revision on, with `history`.
        at_revision
            Read the entries as they were at this revision, as far as the history reaches. The bucket must allow direct
            gets, as it does by default.
        columns
            Any of `key`, `value` (null for markers), `revision`, `created`, `operation` (`PUT`, `DEL`, `PURGE` or
            `EXPIRED`) and `headers`; None means all.
        decode
            Format of the values: its fields take the place of `value`, null for markers; see `jetspark.bulk.scan`.
        retry_timeout
            Seconds to keep trying if the server goes away, or if others write faster than we can read.
        timeout
            Seconds for a request to the server; None takes `timeout` of the context.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist any more.
        InvalidKeyError, ConfigError
            A filter, a column or a combination of options is not valid. Nothing was sent.
        RevisionError
            The bucket has not reached `at_revision`.
        RequestTimeoutError
            There was no moment at which all entries were read.
        PayloadError
            A value cannot be decoded, and the mode is FAILFAST.
        """
        return self._call(
            self._inner.to_arrow(
                *filters,
                history=history,
                include_deletes=include_deletes,
                start_revision=start_revision,
                at_revision=at_revision,
                columns=columns,
                decode=decode,
                retry_timeout=retry_timeout,
                timeout=timeout,
            )
        )

    def scan(
        self,
        *filters: str,
        history: bool = False,
        include_deletes: bool | None = None,
        start_revision: int | None = None,
        at_revision: int | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        max_batch_rows: int = 16384,
    ) -> ScanReader:
        """Read the entries as Arrow record batches, which pandas, polars and DuckDB accept. Needs the `arrow` extra.

            with bucket.scan(history=True) as batches:
                for batch in batches:
                    ...

        It is `to_arrow` piece by piece. With `history` the memory is bounded for a bucket of any size; without it, all
        keys are read before the first batch, because an entry is the newest one only if no other follows.

        Parameters
        ----------
        filters, history, include_deletes, start_revision, at_revision, columns, decode
            As for `to_arrow`.
        max_batch_rows
            Most rows of a record batch.

        Raises
        ------
        InvalidKeyError, ConfigError
            A filter, a column or a combination of options is not valid. Nothing was sent.
        BucketNotFoundError, RevisionError, RequestTimeoutError, ConnectError, DataLossError, PayloadError
            While reading; see `to_arrow` and `jetspark.bulk.scan`.
        """
        return ScanReader(
            self._connection,
            self._run(
                lambda: self._inner.scan(
                    *filters,
                    history=history,
                    include_deletes=include_deletes,
                    start_revision=start_revision,
                    at_revision=at_revision,
                    columns=columns,
                    decode=decode,
                    max_batch_rows=max_batch_rows,
                )
            ),
        )
