"""Writes of objects: each row is put into an object store, or deletes an object, one after the other.

An object whose content and description are stored already is not stored again, so a repeated task changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, MapType, NullType, StringType, StructType

from jetspark.jetstream.errors import ConfigError, InvalidObjectNameError, MaxPayloadError
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.schema import HEADERS, WRITABLE_HEADERS, check_write_types

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk.object_put import ObjectTarget
    from jetspark.jetstream.object_store import ObjectInfo

__all__ = ["ObjectBatchWriter", "ObjectStreamWriter", "plan_object_stream_write", "plan_object_write"]

_log: Final = logging.getLogger(__name__)

_TEXT: Final = StringType()
_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "path": (_TEXT,),
    "content": (BinaryType(), NullType()),
    "description": (_TEXT, NullType()),
    HEADERS: WRITABLE_HEADERS,
    "metadata": (MapType(_TEXT, _TEXT),),
}
_READ_ONLY: Final = frozenset({"modificationtime", "length"})
"""Columns of Spark's `binaryFile` that are not written."""


@dataclass
class ObjectCounts(WriterCommitMessage):
    """The counts of a task: objects that were stored and deleted, and rows that changed nothing."""

    stored: int = 0
    deleted: int = 0
    unchanged: int = 0

    def __str__(self) -> str:
        return f"{self.stored} objects stored, {self.deleted} deleted, {self.unchanged} unchanged"


def plan_object_write(schema: StructType, options: WriteOptions, overwrite: bool) -> ObjectBatchWriter:
    """Check everything that can be checked before a task runs, including the object store.

    Raises
    ------
    ConfigError
        The mode is not append, or a column is missing, unknown, or has a wrong type.
    BucketNotFoundError, BadBucketError
        There is no such object store.
    """
    return ObjectBatchWriter(_plan(schema, options, overwrite))


def plan_object_stream_write(schema: StructType, options: WriteOptions, overwrite: bool) -> ObjectStreamWriter:
    """As `plan_object_write`, for a streaming write."""
    return ObjectStreamWriter(_plan(schema, options, overwrite))


def _plan(schema: StructType, options: WriteOptions, overwrite: bool) -> _ObjectRows:
    from jetspark.bulk.object_put import find_object_store

    assert options.objects is not None
    if overwrite:
        raise ConfigError(
            "modes overwrite and complete are not supported, because a write leaves the other objects; use mode append"
        )
    positions: dict[str, int] = {}
    for at, name in enumerate(each.lower() for each in schema.names):
        if name in _READ_ONLY:
            continue
        if name not in _TYPES or name in positions:
            problem = "there is no column" if name not in _TYPES else "the rows have twice the column"
            raise ConfigError(f"{problem} {name} to write; the columns of objects are: {', '.join(_TYPES)}")
        positions[name] = at
    check_write_types(schema, positions, _TYPES)
    for name in ("path", "content"):
        if name not in positions:
            raise ConfigError(f"the rows have no column {name}; they have {', '.join(schema.names) or 'no columns'}")
    server = options.server
    with borrow_connection(server.connect, options.retry_timeout, first_contact=True) as connection:
        target = find_object_store(
            connection,
            options.objects,
            timeout=server.request_timeout,
            prefix=server.api_prefix,
            retry_timeout=options.retry_timeout,
        )
    return _ObjectRows(positions, options, target)


@dataclass(frozen=True, slots=True)
class _ObjectRows:
    """Writes the rows of tasks."""

    positions: dict[str, int]
    options: WriteOptions
    target: ObjectTarget

    def write(self, batches: Iterator[pa.RecordBatch]) -> ObjectCounts:
        from jetspark.bulk.object_put import ObjectWriter

        options, done, first = self.options, ObjectCounts(), 0
        with borrow_connection(options.server.connect, options.retry_timeout) as connection:
            writer = ObjectWriter(
                connection, self.target, timeout=options.ack_timeout, retry_timeout=options.retry_timeout
            )
            for batch in batches:
                for row, info in enumerate(self._checked(batch, first)):
                    content = batch.column(self.positions["content"])[row]
                    try:
                        if content.is_valid:
                            done.stored += (changed := writer.put(info, memoryview(content.as_buffer())))
                        else:
                            done.deleted += (changed := writer.delete(info.name))
                    except MaxPayloadError as error:  # the description
                        error.args = (f"row {first + row} (path {info.name!r:.100}): {error}",)
                        raise
                    done.unchanged += not changed
                first += len(batch)
        _log.info("objects %s: %s", self.target.bucket, done)
        return done

    def _checked(self, batch: pa.RecordBatch, first: int) -> list[ObjectInfo]:
        """Check all rows of a record batch before one of them is written; return the descriptions."""
        from jetspark.jetstream.object_store.names import meta_subject

        infos, limit = [], self.options.max_object_size
        content = batch.column(self.positions["content"])
        for row, path in enumerate(batch.column(self.positions["path"]).to_pylist()):
            try:
                meta_subject(self.target.subjects, path)
            except InvalidObjectNameError as error:
                raise InvalidObjectNameError(f"row {first + row} (path {path!r:.100}): {error}") from None
            if content[row].is_valid and (size := content[row].as_buffer().size) > limit:
                raise ConfigError(
                    f"row {first + row} (path {path!r}): the object has {size} bytes, and option maxObjectSize allows "
                    f"{limit}"
                )
            infos.append(self._info(batch, row))
            texts = [text for values in infos[-1].headers.values() for text in values]
            if None in texts or None in infos[-1].metadata.values():
                raise ConfigError(f"row {first + row} (path {path!r:.100}): a text in headers or metadata is null")
        return infos

    def _info(self, batch: pa.RecordBatch, row: int) -> ObjectInfo:
        from jetspark.bulk.object_put import new_object

        values = {name: batch.column(at)[row].as_py() for name, at in self.positions.items() if name != "content"}
        headers = {key: [text] if isinstance(text, str) else list(text) for key, text in values.get(HEADERS) or ()}
        return new_object(self.target.bucket, values["path"]).replace(
            description=values.get("description") or "", headers=headers, metadata=dict(values.get("metadata") or ())
        )


class ObjectBatchWriter(DataSourceArrowWriter):
    """Writes rows as objects. Created once for a job on the driver, and sent to every task."""

    def __init__(self, rows: _ObjectRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ObjectCounts:
        """Write the rows of a task, and return the counts."""
        return self._rows.write(iterator)


class ObjectStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a micro-batch as objects."""

    def __init__(self, rows: _ObjectRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ObjectCounts:
        """Write the rows of a task, and return the counts."""
        return self._rows.write(iterator)
