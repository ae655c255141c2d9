"""Objects as rows, with the columns of Spark's `binaryFile`: the columns, the partitions, and the rows of a task.

The driver reads the descriptions of the objects and packs them into partitions by their sizes. A task reads the content
of one object after the other. If an object was replaced in between, the row of a batch read has the newer content. In
a streaming query, the newer description is a later row of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from jetspark.engine.object_meta import object_not_found
from jetspark.jetstream.errors import (
    BadObjectError,
    ConfigError,
    DigestMismatchError,
    Error,
    LinkError,
    ObjectChangedError,
    ObjectIncompleteError,
    ObjectNotFoundError,
)
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.info import read_info
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.partitions import MAX_PARTITIONS
from jetspark.spark.schema import check_columns, conform

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection
    from jetspark.bulk.object_get import ObjectGetter, ObjectPlace

__all__ = ["META_COLUMNS", "ObjectPartition", "ObjectRows", "object_schema", "pack"]

_log: Final = logging.getLogger(__name__)

META_COLUMNS: Final = ("subject", "data", "sequence", "timestamp_ns")
"""Columns of messages that make a description."""
_CONTENT: Final = "content"
_MAX_BATCH_BYTES: Final = 1 << 30
"""Most bytes of several contents in one record batch; Arrow has room for twice as many."""
_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "path": (StringType(),),
    "modificationTime": (TimestampType(),),
    "length": (LongType(),),
    _CONTENT: (BinaryType(),),
}
_NAMES: Final = {name.lower(): name for name in _TYPES}
_CORRUPT: Final = (BadObjectError, DigestMismatchError, LinkError, ObjectIncompleteError)


def object_schema() -> StructType:
    """Return the schema of a read of an object store."""
    return StructType([StructField(name, types[0]) for name, types in _TYPES.items()])


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object to read.

    Attributes
    ----------
    path
        Its name; of a link, the name of the link.
    revision
        Sequence of its description; of a link, that of the link.
    place, info
        Where the content is, and the description that it had when the read was planned.
    """

    path: str
    revision: int
    place: ObjectPlace
    info: ObjectInfo


@dataclass(frozen=True)
class ObjectPartition(InputPartition):
    """The part of a read for one task.

    Attributes
    ----------
    place
        The object store.
    rows
        The objects, in the order of their descriptions.
    """

    place: ObjectPlace
    rows: tuple[ObjectRow, ...]


def pack(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Return the positions of the objects of each partition, in order.

    Parameters
    ----------
    sizes
        Bytes of the objects.
    limit
        Most bytes of a partition. A larger object is alone.
    """
    packed: list[list[int]] = []
    room = -1
    for at, size in enumerate(sizes):
        if size > limit:
            packed.append([at])
            continue
        if size > room:
            packed.append(begun := [])
            room = limit
        begun.append(at)
        room -= size
    return packed


class ObjectRows:
    """Plans and reads the rows of objects. Created on the driver, and sent to every task.

    Parameters
    ----------
    schema
        Columns of the read: any of those of `object_schema`, in any order.
    options
        Options of the read.
    changes
        Whether the rows are changes, so that a newer description is a row of its own.

    Raises
    ------
    ConfigError
        A column does not exist or is there twice, or cannot be read as the given type.
    """

    def __init__(self, schema: StructType, options: ReadOptions, *, changes: bool) -> None:
        assert options.objects is not None
        self._options = options
        self._objects = options.objects
        self._changes = changes
        self._names, _, self._schema = check_columns(schema, _TYPES, _find_column, "objects")

    # -- on the driver -------------------------------------------------------------------------------------------

    def plan(self, connection: Connection, place: ObjectPlace, metas: pa.Table) -> list[InputPartition]:
        """Return the partitions for the descriptions in a table with `META_COLUMNS`.

        Raises
        ------
        BadObjectError, LinkError, ObjectNotFoundError
            A description cannot be read, or a link cannot be followed, and the options do not leave it out.
        ConfigError
            There would be too many partitions.
        """
        rows: list[ObjectRow] = []
        getter = self._getter(connection)
        for message in metas.select(META_COLUMNS).to_batches():
            for subject, data, sequence, ns in zip(*(column.to_pylist() for column in message.columns), strict=True):
                try:
                    info = read_info(place.bucket, subject, data, sequence, ns)
                    if self._is_wanted(info):
                        rows.append(_row(info, *getter.follow(place, info)))
                except Error as error:
                    self._leave_out(place, subject, error)
        sizes = [row.info.size if _CONTENT in self._names else 0 for row in rows]
        packed = pack(sizes, self._objects.max_partition_bytes)
        if len(packed) > MAX_PARTITIONS:
            raise ConfigError(
                f"option maxPartitionBytes makes {len(packed)} partitions, and {MAX_PARTITIONS} are allowed: raise it"
            )
        return [ObjectPartition(place, tuple(rows[at] for at in part)) for part in packed]

    def _is_wanted(self, info: ObjectInfo) -> bool:
        wanted = self._objects.path_filter
        is_object = not info.deleted and (info.link is None or bool(info.link.name))
        return is_object and (wanted is None or wanted.fullmatch(info.name) is not None)

    # -- in a task -----------------------------------------------------------------------------------------------

    def read(self, part: ObjectPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition.

        Raises
        ------
        ConfigError
            An object is larger than the option `maxObjectSize`.
        ObjectIncompleteError, DigestMismatchError, ObjectNotFoundError, ...
            An object is damaged or gone, and the options do not leave it out.
        """
        options = self._options
        begun: list[tuple[str, ObjectInfo, memoryview | None]] = []
        size, limit = 0, min(options.batch_bytes, _MAX_BATCH_BYTES)
        with borrow_connection(options.server.connect, options.retry_timeout) as connection:
            getter = self._getter(connection)
            for row in part.rows:
                try:
                    found = self._load(getter, part.place, row)
                except Error as error:
                    self._leave_out(part.place, row.path, error)
                    continue
                if found is None:
                    continue
                length = 0 if found[1] is None else len(found[1])
                if begun and (size + length > limit or len(begun) >= options.batch_rows):
                    yield self._batch(begun)
                    begun, size = [], 0
                begun.append((row.path, *found))
                size += length
        if begun:
            yield self._batch(begun)

    def _load(
        self, getter: ObjectGetter, store: ObjectPlace, row: ObjectRow
    ) -> tuple[ObjectInfo, memoryview | None] | None:
        """Return the description and the content of an object; None if it has no row any more."""
        place, info = row.place, row.info
        if _CONTENT not in self._names:
            return info, None
        self._check_size(row.path, info)
        try:
            return info, getter.read(place, info)
        except ObjectChangedError:
            current = getter.find(store, row.path)
        if self._changes and (current is None or current.revision != row.revision):
            return None  # the newer description is a later row
        if current is None or current.deleted:
            raise object_not_found(store.bucket, row.path, current)
        if not self._is_wanted(current):
            return None
        place, info = getter.follow(store, current)
        self._check_size(row.path, info)
        return info, getter.read(place, info)

    def _check_size(self, path: str, info: ObjectInfo) -> None:
        limit = self._objects.max_object_size
        if info.size > limit:
            raise ConfigError(
                f"objects {self._objects.name}: {path!r} has {info.size} bytes, and option maxObjectSize allows {limit}"
            )

    def _batch(self, rows: Sequence[tuple[str, ObjectInfo, memoryview | None]]) -> pa.RecordBatch:
        import pyarrow as pa

        def column(name: str) -> pa.Array:
            if name == "path":
                return pa.array([path for path, _, _ in rows], pa.string())
            if name == "length":
                return pa.array([info.size for _, info, _ in rows], pa.int64())
            if name == _CONTENT:
                return _binary([content for _, _, content in rows if content is not None])
            return pa.array([info.mtime_ns // 1000 for _, info, _ in rows], pa.int64()).view(pa.timestamp("us", "UTC"))

        arrays = [column(name) for name in self._names]
        return conform(pa.RecordBatch.from_arrays(arrays, list(self._names)), self._schema)

    # -- both ----------------------------------------------------------------------------------------------------

    def _getter(self, connection: Connection) -> ObjectGetter:
        from jetspark.bulk.object_get import ObjectGetter

        server = self._options.server
        return ObjectGetter(
            connection,
            timeout=server.request_timeout,
            retry_timeout=self._options.retry_timeout,
            prefix=server.api_prefix,
            consumer_prefix=server.consumer_prefix,
        )

    def _leave_out(self, place: ObjectPlace, what: str, error: Error) -> None:
        """Log why an object is left out; raise the error if the options do not say so."""
        corrupt = self._objects.ignore_corrupt and isinstance(error, _CORRUPT)
        missing = self._objects.ignore_missing and isinstance(error, ObjectNotFoundError)
        if not (corrupt or missing):
            raise error
        _log.warning("objects %s: %r is left out: %s", place.bucket, what, error)


def _find_column(name: str) -> str:
    found = _NAMES.get(name.lower())
    if found is None:
        raise ConfigError(f"there is no column {name} to read; the columns of objects are: {', '.join(_TYPES)}")
    return found


def _row(own: ObjectInfo, place: ObjectPlace, info: ObjectInfo) -> ObjectRow:
    """Return the row of an object, without the texts of its description, which no column has."""
    short = info.replace(description="", headers={}, metadata={}, extra={})
    return ObjectRow(own.name, own.revision, place, short)


def _binary(values: Sequence[memoryview]) -> pa.Array:
    import pyarrow as pa

    if len(values) != 1:
        return pa.array(values, pa.binary())
    ends = pa.array([0, len(values[0])], pa.int32()).buffers()[1]  # no copy of a large object
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(values[0])])
