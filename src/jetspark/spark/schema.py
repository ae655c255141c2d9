"""The columns of a read and of a write: allowed schemas, and the conversion of record batches to them.

Spark accepts a record batch only if its Arrow schema equals the declared one exactly: order, types, nullability. Spark
does not push column pruning down to a Python source. To read fewer columns, the user gives a schema; columns that it
does not name are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.message_columns import READABLE, find_column, find_write_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk.key_value_bucket import BucketTarget

__all__ = [
    "HEADERS",
    "HEADERS_TYPE",
    "READABLE_TYPES",
    "WRITABLE_HEADERS",
    "WRITABLE_TYPES",
    "Projection",
    "WriteColumns",
    "check_arrow_types",
    "check_columns",
    "check_write_types",
    "columns_of",
    "conform",
    "is_one_of",
    "plan_projection",
    "read_schema",
    "same_type",
    "with_subject",
    "write_columns",
]

HEADERS: Final = "headers"
_TEXT: Final = StringType()
HEADERS_TYPE: Final = MapType(_TEXT, ArrayType(_TEXT))

READABLE_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "subject": (_TEXT,),
    "data": (BinaryType(), _TEXT),
    HEADERS: (HEADERS_TYPE,),
    "stream": (_TEXT,),
    "sequence": (LongType(), IntegerType()),
    "timestamp": (TimestampType(), TimestampNTZType()),
    "timestamp_ns": (LongType(),),
}
WRITABLE_HEADERS: Final = (HEADERS_TYPE, MapType(_TEXT, _TEXT))
WRITABLE_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "subject": (_TEXT,),
    "data": (BinaryType(), _TEXT),
    HEADERS: WRITABLE_HEADERS,
    "msg_id": (_TEXT,),
}


def read_schema(include_headers: bool) -> StructType:
    """Return the schema of a read: every column in its native type, `headers` only if requested."""
    names = [name for name in READABLE_TYPES if include_headers or name != HEADERS]
    return StructType([StructField(name, READABLE_TYPES[name][0]) for name in names])


@dataclass(frozen=True, slots=True)
class Projection:
    """The conversion of a scan's record batches to the schema of a read.

    Attributes
    ----------
    columns
        The scan's columns, in the order of the schema.
    schema
        Exact Arrow schema that Spark expects.
    native_columns
        Names of the columns with their native type, in lower case. Filters on these columns can be pushed down.
    """

    columns: tuple[str, ...]
    schema: pa.Schema
    native_columns: frozenset[str]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the scan's batch with the schema's names, types and nullability.

        Raises
        ------
        ConfigError
            A sequence does not fit into the schema's int.
        """
        return conform(batch, self.schema)


def plan_projection(schema: StructType) -> Projection:
    """Check the schema of a read, the default or the user's own: any columns, in any order, nullable or not.

    Raises
    ------
    ConfigError
        A column does not exist or is there twice, or cannot be read as the given type.
    """
    columns, native, arrow = check_columns(
        schema, READABLE_TYPES, lambda name: find_column(name, READABLE, "read", any_case=True), "messages"
    )
    return Projection(columns, arrow, native)


def check_columns(
    schema: StructType, types: Mapping[str, tuple[DataType, ...]], find: Callable[[str], str], noun: str
) -> tuple[tuple[str, ...], frozenset[str], pa.Schema]:
    """Check the columns of a read; return their names, those with their native type, and the exact Arrow schema.

    Parameters
    ----------
    schema
        Schema of the read.
    types
        Allowed types of each column, the native one first.
    find
        Returns the column that a name means, or raises ConfigError.
    noun
        Noun for the rows that have these columns, for the error.

    Raises
    ------
    ConfigError
        A column does not exist or is there twice, or cannot be read as the given type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    columns: list[str] = []
    native = []
    for field in schema:
        name = find(field.name)
        if name in columns:
            raise ConfigError(f"the schema has the column {name} twice")
        if not is_one_of(field.dataType, types[name]):
            raise _wrong_type(field, types[name], "be read as")
        columns.append(name)
        if same_type(field.dataType, types[name][0]):
            native.append(name)
    if not columns:
        raise ConfigError(f"the schema has no column; {noun} have {', '.join(types)}")
    return tuple(columns), frozenset(native), to_arrow_schema(schema, timezone="UTC")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch with the names, types and nullability of a schema.

    Raises
    ------
    ConfigError
        A sequence does not fit into the schema's int.
    """
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    arrays = [_cast(batch.column(at), field) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """The columns of a write.

    Attributes
    ----------
    positions
        Name -> position in Spark's record batches.
    bucket
        The bucket into which the rows are written; None if they are messages.
    """

    positions: dict[str, int]
    bucket: BucketTarget | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.positions


def write_columns(schema: StructType, subject: str | None) -> WriteColumns:
    """Check the schema of a write.

    Parameters
    ----------
    schema
        The rows' schema.
    subject
        The option `subject`, which takes precedence over the column of that name.

    Raises
    ------
    ConfigError
        A required column is missing, a column has the wrong type, or a column would not be written.
    """
    positions = find_write_columns(schema.names, any_case=True)
    check_write_types(schema, positions, WRITABLE_TYPES)
    if "data" not in positions:
        raise ConfigError(
            f"the rows have no column data (the payload, binary or string); they have {columns_of(schema)}"
        )
    return WriteColumns(with_subject(positions, subject, schema))


def with_subject(positions: dict[str, int], subject: str | None, schema: StructType) -> dict[str, int]:
    """Return the columns of a write for the option `subject`. Raises ConfigError if there is neither."""
    if subject is not None:
        positions.pop("subject", None)
    elif "subject" not in positions:
        raise ConfigError(
            f"the rows have no column subject (string), and option subject is not given; they have {columns_of(schema)}"
        )
    return positions


def columns_of(schema: StructType) -> str:
    """Return the columns of rows with their types, for errors."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) or "no columns"


def check_write_types(
    schema: StructType, positions: Mapping[str, int], types: Mapping[str, tuple[DataType, ...]]
) -> None:
    """Check the types of the columns of a write. Raises ConfigError for the first wrong one."""
    for name, at in positions.items():
        if not is_one_of(schema[at].dataType, types[name]):
            raise _wrong_type(schema[at], types[name], "be written from")


def check_arrow_types(fields: StructType) -> None:
    """Check that Spark exchanges the types with Python. Raises ConfigError for the first that it does not."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    for field in fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            kind = field.dataType.simpleString()
            raise ConfigError(f"column {field.name} {kind}: Spark does not exchange this type with Python") from error


def is_one_of(have: DataType, types: tuple[DataType, ...]) -> bool:
    """Whether a type is one of these, apart from the nullability of its parts."""
    return any(same_type(have, wanted) for wanted in types)


def same_type(have: DataType, wanted: DataType) -> bool:
    """Whether two types are equal, apart from the nullability of their parts."""
    if isinstance(have, MapType) and isinstance(wanted, MapType):
        return same_type(have.keyType, wanted.keyType) and same_type(have.valueType, wanted.valueType)
    if isinstance(have, ArrayType) and isinstance(wanted, ArrayType):
        return same_type(have.elementType, wanted.elementType)
    if isinstance(have, DayTimeIntervalType):
        return isinstance(wanted, DayTimeIntervalType)
    return have == wanted


def _wrong_type(field: StructField, types: tuple[DataType, ...], verb: str) -> ConfigError:
    wanted = " or ".join(wanted.simpleString() for wanted in types)
    return ConfigError(f"column {field.name} can only {verb} {wanted}, not {field.dataType.simpleString()}")


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_map(field.type):
        return _cast_map(array, field)
    if array.type.equals(field.type):
        return array
    if pa.types.is_binary(array.type):
        return array.view(field.type)  # the same bytes, as in Spark's own cast
    if pa.types.is_timestamp(field.type):
        return array.view(pa.int64()).view(field.type)
    try:
        return array.cast(field.type)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"column {field.name} {field.type}: {error}; declare it bigint") from None


def _cast_map(array: pa.MapArray, field: pa.Field) -> pa.MapArray:
    import pyarrow as pa

    if not field.nullable and array.null_count:
        # Messages without headers are null. If the schema allows no null, they get an empty map.
        array = pa.array([entries or [] for entries in array.to_pylist()], array.type)
    return array if array.type.equals(field.type) else array.cast(field.type)
