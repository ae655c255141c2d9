"""Leaves out the rows for a bucket that an earlier run of their task has stored, also if they were overwritten since.

A bucket keeps few revisions of a key, so the message of a stored row may be gone. The record of a task has the newest
revision of the bucket before its first run. Later messages were stored since. If the id of a row is not among them, but
so many of them have its key that the row's own message may be gone, the row counts as stored: it is not written over
what came later. The exception is a key whose newest message is an earlier row of the same task: then the row is the
next one to be stored, because the rows of a key keep their order. A row with an expected revision needs none of this:
the server refuses it if the key has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk.key_value_bucket import BucketTarget
from jetspark.bulk.key_value_rows import EXPECTED
from jetspark.jetstream.header_names import MSG_ID, ROLLUP
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.write.message_ids import original_ids
from jetspark.spark.write.unstored import UnstoredRows

__all__ = ["UnstoredEntries"]


@dataclass(slots=True)
class _Changes:
    """The messages of a key since the first run."""

    count: int = 0
    purged: bool = False
    newest_id: str | None = None


class UnstoredEntries(UnstoredRows):
    """As `UnstoredRows`, for the messages of a bucket.

    Parameters
    ----------
    bucket
        The bucket.
    revision
        Its newest revision before the first run.
    """

    def __init__(
        self,
        options: WriteOptions,
        prefix: str | None,
        first_attempt_ns: int | None,
        batch_digests: Sequence[str],
        bucket: BucketTarget,
        revision: int,
    ) -> None:
        super().__init__(options, prefix, first_attempt_ns, batch_digests)
        self._bucket = bucket
        self._revision = revision
        self._changes: dict[str, _Changes] = {}  # by key
        self._passed: set[str] = set()  # ids of the rows so far

    def _pass(self, ids: pa.StringArray) -> None:
        self._passed.update(ids.to_pylist())

    def _without_stored(self, batch: pa.RecordBatch, ids: pa.StringArray) -> pa.RecordBatch:
        subjects = batch.column("subject").to_pylist()
        found = self.are_stored(subjects, ids).to_pylist()
        expected = batch.column(EXPECTED).to_pylist() if EXPECTED in batch.schema.names else [None] * len(batch)
        kept = []
        for subject, msg_id, revision, there in zip(subjects, ids.to_pylist(), expected, found, strict=True):
            key = subject.removeprefix(self._bucket.write_prefix)
            kept.append(not there and (revision is not None or not self._may_be_overwritten(key)))
            self._passed.add(msg_id)
        return batch.filter(pa.array(kept))

    def _may_be_overwritten(self, key: str) -> bool:
        changes = self._changes.get(key)
        if changes is None or changes.newest_id in self._passed:
            return False
        return changes.purged or changes.count >= self._bucket.history

    def _read_ids(self, connection: Connection, stream: str) -> Sequence[str]:
        server = self._options.server
        with bulk.scan(
            connection,
            stream,
            start_sequence=self._revision + 1,
            columns=["subject", "headers"],
            timeout=server.request_timeout,
            retry_timeout=self._options.retry_timeout,
            prefix=server.api_prefix,
            consumer_prefix=server.consumer_prefix,
        ) as batches:
            for batch in batches:
                self._read_changes(batch)
        return (f"{self._bucket.write_prefix}>",)

    def _read_changes(self, batch: pa.RecordBatch) -> None:
        headers = batch.column("headers")
        ids = original_ids(_first_values(headers, MSG_ID))
        self._stored.add(pc.drop_null(ids))
        purges = pc.is_valid(pc.map_lookup(headers, ROLLUP, "first"))
        rows: Iterable[tuple[str, str | None, bool]] = zip(
            batch.column("subject").to_pylist(), ids.to_pylist(), purges.to_pylist(), strict=True
        )
        for subject, msg_id, purges_key in rows:
            changes = self._changes.setdefault(subject.removeprefix(self._bucket.stored_prefix), _Changes())
            changes.count += 1
            changes.purged |= purges_key
            changes.newest_id = msg_id


def _first_values(headers: pa.MapArray, name: str) -> pa.StringArray:
    lists = pc.map_lookup(headers, name, "first")
    return pc.list_element(pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, lists.type), lists), 0)
