"""The options of a read of an object store. Its objects are in the stream `OBJ_<bucket>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.option import Option
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options

__all__ = ["ObjectReadOptions", "make_object_options"]

_MAX_READ_SIZE: Final = 512 << 20
"""Default of `maxObjectSize` for reads."""
_MAX_VALUE: Final = (1 << 31) - 1
"""Most bytes of a binary value in Spark."""
_OF_OTHERS: Final[tuple[Option[object], ...]] = (
    table.STREAM,
    table.STREAM_PATTERN,
    table.SUBJECT,
    table.READ_MODE,
    table.INCLUDE_HEADERS,
    table.MIN_PARTITIONS,
    table.MAX_RECORDS_PER_PARTITION,
)
_OF_OBJECTS: Final[tuple[Option[object], ...]] = (
    table.PATH_GLOB_FILTER,
    table.MAX_PARTITION_BYTES,
    table.MAX_OBJECT_SIZE,
    table.IGNORE_CORRUPT_FILES,
    table.IGNORE_MISSING_FILES,
)


@dataclass(frozen=True, slots=True)
class ObjectReadOptions:
    """The checked options of a read of an object store.

    Attributes
    ----------
    name
        Name of the bucket.
    path_filter
        Pattern of the names of the objects to read; None for all objects.
    max_partition_bytes
        Most bytes of a partition with several objects.
    max_object_size
        Most bytes of an object.
    ignore_corrupt, ignore_missing
        Whether objects are left out that are damaged, and that are gone.
    """

    name: str
    path_filter: re.Pattern[str] | None
    max_partition_bytes: int
    max_object_size: int
    ignore_corrupt: bool
    ignore_missing: bool

    @property
    def stream(self) -> str:
        """Name of the stream of the bucket."""
        return OBJECTS.stream_of(self.name)


def make_object_options(parsed: ParsedOptions) -> ObjectReadOptions | None:
    """Check the options of a read of an object store; return None if the read is of something else.

    Raises
    ------
    ConfigError
        Two options contradict each other, or one has no effect.
    """
    name = parsed[table.OBJECTS]
    if name is None:
        for option in _OF_OBJECTS:
            if option in parsed:
                raise ConfigError(
                    f"option {option.name} needs option {table.OBJECTS.name}: the name of an object store"
                )
        return None
    for option in _OF_OTHERS:
        if option in parsed:
            raise conflicting_options(table.OBJECTS, option)
    size = parsed[table.MAX_OBJECT_SIZE] or _MAX_READ_SIZE
    if size > _MAX_VALUE:
        raise ConfigError(
            f"option {table.MAX_OBJECT_SIZE.name} is {size}: a value in Spark has at most {_MAX_VALUE} bytes"
        )
    return ObjectReadOptions(
        name=name,
        path_filter=parsed[table.PATH_GLOB_FILTER],
        max_partition_bytes=parsed[table.MAX_PARTITION_BYTES],
        max_object_size=size,
        ignore_corrupt=parsed[table.IGNORE_CORRUPT_FILES],
        ignore_missing=parsed[table.IGNORE_MISSING_FILES],
    )
