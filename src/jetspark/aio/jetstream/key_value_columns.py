"""A key-value bucket as Arrow columns: reads, and writes of many keys. They need the `arrow` extra."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from jetspark.aio.jetstream._drivers.key_value import KeyValueCore
from jetspark.aio.jetstream.arrow import ScanReader, run_over_connection, scan_by
from jetspark.aio.jetstream.key_value_reads import KeyValueReads
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.message_columns import ArrowStream
from jetspark.payload import DecodeOptions, PayloadFormat, RowDecoder
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    from jetspark import bulk
    from jetspark.bulk.key_value_reads import KeyValueRead

__all__ = ["KeyValueColumns", "put_columns"]


@checks_arguments()
class KeyValueColumns(KeyValueReads):
    """The calls of a bucket that return columns."""

    async def to_arrow(
        self,
        *filters: str,
        history: bool = False,
        include_deletes: bool | None = None,
        start_revision: int | None = None,
        at_revision: int | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        retry_timeout: float = 30.0,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> bulk.EntryTable:
        """Read the entries as they were at one moment, as Arrow columns. Needs the `arrow` extra.

            users = await bucket.to_arrow("users.*")
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
        read = self._column_read(
            filters,
            history,
            include_deletes,
            start_revision,
            at_revision,
            columns,
            decode,
            timeout=self._core.js.timeout if timeout is None else timeout,
            retry_timeout=retry_timeout,
        )
        return await run_over_connection(self._core.js, read.table)

    def scan(
        self,
        *filters: str,
        history: bool = False,
        include_deletes: bool | None = None,
        start_revision: int | None = None,
        at_revision: int | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        max_batch_rows: int = 16_384,
    ) -> ScanReader:
        """Read the entries as Arrow record batches, which pandas, polars and DuckDB accept. Needs the `arrow` extra.

            async with bucket.scan(history=True) as batches:
                async for batch in batches:
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
        read = self._column_read(
            filters,
            history,
            include_deletes,
            start_revision,
            at_revision,
            columns,
            decode,
            timeout=self._core.js.timeout,
        )
        if max_batch_rows < 1:
            raise ConfigError(f"max_batch_rows must be positive, not {max_batch_rows}")
        return scan_by(self._core.js, partial(read.scan, max_batch_rows=max_batch_rows))

    def _column_read(
        self,
        filters: tuple[str, ...],
        history: bool,
        include_deletes: bool | None,
        start_revision: int | None,
        at_revision: int | None,
        columns: Sequence[str] | None,
        decode: PayloadFormat | DecodeOptions | None,
        *,
        timeout: float,
        retry_timeout: float = 30.0,
    ) -> KeyValueRead:
        from jetspark.bulk.decoding import columns_to_read
        from jetspark.bulk.key_value_columns import EntryColumns
        from jetspark.bulk.key_value_reads import KeyValueRead

        core, markers = self._core, history if include_deletes is None else include_deletes
        entries, rows = EntryColumns(core.stored_prefix, columns, markers), None
        if decode is not None:
            rows = RowDecoder.for_columns(decode, entries.schema, "value", f"bucket {core.bucket!r}")
            entries = EntryColumns(core.stored_prefix, columns_to_read(rows, "revision"), markers)
        return KeyValueRead(
            core.bucket,
            core.stream,
            self._subjects(filters),
            entries,
            history,
            start_revision,
            at_revision,
            core.js.prefix,
            timeout,
            retry_timeout,
            rows,
        )


async def put_columns(bucket: KeyValueCore, rows: ArrowStream, timeout: float) -> bulk.PublishReport:  # noqa: ASYNC109
    """Write rows over a new connection with the context's settings, in a thread; see `KeyValue.put_many`."""
    from jetspark.bulk.key_value_writes import put_rows

    js = bucket.js
    write = partial(put_rows, bucket=bucket.bucket, rows=rows, prefix=js.prefix, timeout=timeout)
    return await run_over_connection(js, write)
