"""Finds the rows that an earlier run of a task has published as dead letters, so that they have no second outcome.

The reason of a dead letter may be gone when the task runs again: the stream accepts larger messages, or takes another
subject now. Without this look-up the row would be a dead letter, and be stored as well.
"""

from __future__ import annotations

import logging
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from jetspark import bulk
from jetspark.bulk.dead_letters import row_letter_id
from jetspark.engine.retry import can_resume
from jetspark.jetstream.errors import Error
from jetspark.jetstream.header_names import MSG_ID
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.write.id_set import IdSet

__all__ = ["EarlierDeadLetters"]

_log: Final = logging.getLogger(__name__)


class EarlierDeadLetters:
    """The dead letters of a query since a time. They are read when they are needed first.

    Parameters
    ----------
    query
        Id of the query.
    since_ns
        Time, in nanoseconds since 1970.
    """

    def __init__(self, options: WriteOptions, query: str, since_ns: int) -> None:
        self._options = options
        self._query = query
        self._since_ns = max(since_ns, 0)
        self._found: IdSet | None = None

    def contain(self, ids: pa.StringArray) -> pa.BooleanArray:
        """Return which of these message ids belong to rows that are dead letters."""
        if self._found is None:
            self._found = self._read()
        letters = [None if each is None else row_letter_id(self._query, each) for each in ids.to_pylist()]
        return pc.and_(pc.is_valid(ids), self._found.contains(pc.fill_null(pa.array(letters, pa.string()), "")))

    def _read(self) -> IdSet:
        found = IdSet()
        try:
            self._read_into(found)
        except Error as error:
            if can_resume(error):
                raise
            _log.warning(
                "cannot look up the dead letters that an earlier run has published; their rows may be stored now: %s",
                error,
            )
        return found

    def _read_into(self, found: IdSet) -> None:
        options, dead = self._options, self._options.dead_letters
        assert dead is not None
        # The worker's connection publishes rows at the same time, so another one is needed.
        with (
            borrow_connection(options.server.connect, options.retry_timeout) as connection,
            bulk.scan(
                connection,
                dead.stream,
                subjects=[dead.subject],
                start_time=self._since_ns,
                columns=["headers"],
                timeout=options.server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=options.server.api_prefix,
            ) as batches,
        ):
            for batch in batches:
                lists = pc.map_lookup(batch.column("headers"), MSG_ID, "first")
                found.add(pc.drop_null(pc.list_flatten(lists)))
