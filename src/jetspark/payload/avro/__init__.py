"""Payloads as Avro records."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.avro.columns import decode_columns
from jetspark.payload.avro.encode import encode_rows
from jetspark.payload.avro.headers import CONFLUENT, SINGLE_OBJECT, Header, split_headers
from jetspark.payload.avro.plan import Plan, natural_schema, plan_record
from jetspark.payload.avro.rows import decode_rows
from jetspark.payload.avro.schema import MAX_TEXT, fingerprint, parse_schema
from jetspark.payload.faults import Faults
from jetspark.payload.formats import Decoded
from jetspark.payload.options import FormatOptions
from jetspark.wire.files import read_file

__all__ = ["AvroFormat", "create", "create_encoder", "infer_schema"]

_HEADERS: Final = {
    "single-object": Header(SINGLE_OBJECT, 8, "fingerprint"),
    "confluent": Header(CONFLUENT, 4, "schema id"),
}
_MAX_SCHEMAS: Final = 1000


@dataclass(frozen=True)
class AvroFormat:
    """Fields of Avro records; see `PayloadFormat`.

    Attributes
    ----------
    schema
        Columns.
    schemas
        Names of the schemas in the headers of payloads, and their texts. The first one is used to encode.
    header
        The header before each record, if there is one.
    """

    schema: pa.Schema
    schemas: tuple[tuple[bytes | None, str], ...]
    header: Header | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the plans, which have functions."""
        return AvroFormat, (self.schema, self.schemas, self.header)

    @cached_property
    def plans(self) -> list[Plan]:
        """The way from each schema to the columns. Raises ConfigError for a column that a schema cannot give."""
        trees = [parse_schema(text) for _, text in self.schemas]
        known = {name for tree in trees for name, _ in tree.fields}
        wanted = list(self.schema)
        if not wanted:
            raise ConfigError("payload format avro needs a column: a field of the Avro schema")
        if any(each.name not in known for each in wanted):
            plan_record(trees[0], wanted)  # raises the error
        return [plan_record(tree, wanted, lenient=True) for tree in trees]

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Return the fields of the records. A payload that is no record of the schema is a bad record."""
        faults = Faults(payloads)
        if self.header is None:
            return faults.decoded(_decode(payloads, self.plans[0], faults), self.schema)
        names = [name for name, _ in self.schemas]
        parts: list[list[pa.Array]] = []
        places = np.zeros(len(payloads), np.int64)
        count = 0
        for part in split_headers(payloads, self.header, names, faults):
            found = Faults(part.records)
            plan = self.plans[part.schema]
            parts.append(self._all_columns(_decode(part.records, plan, found), plan, len(part.rows)))
            faults.add(found, part.rows)
            places[part.rows] = np.arange(count, count + len(part.rows))
            count += len(part.rows)
        return faults.decoded(self._joined(parts, places), self.schema)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the rows as records of the first schema. Raises PayloadError for a value that does not fit."""
        name = self.schemas[0][0]
        if self.header is None:
            return encode_rows(rows, self.plans[0], b"")
        if name is None:
            raise ConfigError("to write payloads with avroEncoding = confluent, set avroSchemaId, the id of avroSchema")
        return encode_rows(rows, self.plans[0], self.header.start + name)

    def _all_columns(self, columns: list[pa.Array], plan: Plan, count: int) -> list[pa.Array]:
        """Return columns of one schema, with nulls for those that it does not have."""
        found = dict(zip((plan.node.fields[at][0] for at, _ in plan.parts), columns, strict=True))
        return [found.get(each.name, pa.nulls(count, each.type)) for each in self.schema]

    def _joined(self, parts: list[list[pa.Array]], places: NDArray[np.int64]) -> list[pa.Array]:
        if not parts:
            return [pa.nulls(len(places), each.type) for each in self.schema]
        joined = parts[0] if len(parts) == 1 else [pa.concat_arrays(each) for each in zip(*parts, strict=True)]
        return joined if len(parts[0][0]) == len(places) else [each.take(pa.array(places)) for each in joined]


def _decode(payloads: pa.BinaryArray, plan: Plan, faults: Faults) -> list[pa.Array]:
    if plan.node.has_sequences:
        return decode_rows(payloads, plan, faults)
    return decode_columns(payloads, plan, faults)


def create(schema: pa.Schema, options: FormatOptions) -> AvroFormat:
    """Return the format.

    Raises
    ------
    ConfigError
        A schema is missing or wrong, or it cannot give a column, or options contradict each other.
    ModuleNotFoundError
        The package fastavro is missing.
    """
    if importlib.util.find_spec("fastavro") is None:
        problem = "payload format avro needs fastavro: pip install 'jetspark[avro]'"
        raise ModuleNotFoundError(problem, name="fastavro")
    encoding = options.get("avroEncoding", str)
    made = AvroFormat(schema, tuple(_named_schemas(options, encoding)), _HEADERS.get(encoding))
    assert made.plans
    return made


def create_encoder(schema: pa.Schema, options: FormatOptions) -> AvroFormat:
    """Return the format, for `encode`.

    Raises
    ------
    ConfigError
        As of `create`; or a field that may not be null has no column, or the id of the schema is missing.
    """
    made = create(schema, options)
    made.encode(pa.RecordBatch.from_pylist([], schema))  # checks them
    return made


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:  # noqa: ARG001 - it has them
    """Return the columns of all fields of the first schema, with the types of Spark's from_avro."""
    _, text = _named_schemas(options, options.get("avroEncoding", str))[0]
    return natural_schema(parse_schema(text))


def _named_schemas(options: FormatOptions, encoding: str) -> list[tuple[bytes | None, str]]:
    """Return the texts of all schemas, each with its name in headers. The first one is used to write."""
    text, number, others = _text(options), options.get("avroSchemaId", int), options.get("avroSchemas", str)
    if number >= 0 and encoding != "confluent":
        raise ConfigError(
            f"options avroSchemaId and avroEncoding = {encoding} contradict each other: only confluent has ids"
        )
    if others and encoding == "binary":
        raise ConfigError(
            "options avroSchemas and avroEncoding = binary contradict each other: such payloads name no schema"
        )
    if not text and not others:
        raise ConfigError("payload format avro needs option avroSchema, avroSchemaFile or avroSchemas")
    if encoding == "single-object":
        texts = ([text] if text else []) + _listed(others)
        return [(fingerprint(each), each) for each in texts]
    name = number.to_bytes(4, "big") if number >= 0 else None
    found: dict[bytes | None, str] = {name: text} if text else {}
    if text and others and name is None:
        raise ConfigError("options avroSchema and avroSchemas together need avroSchemaId, the id of avroSchema")
    for each, other in _by_id(others).items():
        if each in found:
            raise ConfigError(f"avroSchemas has the id {number}, which is the id of avroSchema, too")
        found[each] = other
    if name not in found and name is not None:
        raise ConfigError(f"avroSchemaId is {number}, and avroSchemas has no schema with this id")
    return sorted(found.items(), key=lambda item: item[0] != name)


def _text(options: FormatOptions) -> str:
    text, path = options.get("avroSchema", str), options.get("avroSchemaFile", str)
    if text and path:
        raise ConfigError("options avroSchema and avroSchemaFile contradict each other")
    if not path:
        return text
    try:
        return read_file(path, "file of the Avro schema", MAX_TEXT).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file of the Avro schema {path} is not UTF-8: {error}") from None


def _loaded(others: str) -> object:
    try:
        return json.loads(others) if others else None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"option avroSchemas is not JSON: {error}") from None


def _listed(others: str) -> list[str]:
    found = _loaded(others)
    if found is not None and not isinstance(found, list):
        raise ConfigError("option avroSchemas must be an array of schemas with avroEncoding = single-object")
    return [json.dumps(each) for each in _limited(found or [])]


def _by_id(others: str) -> dict[bytes, str]:
    found = _loaded(others)
    if found is not None and not isinstance(found, dict):
        raise ConfigError("option avroSchemas must be an object of ids and schemas with avroEncoding = confluent")
    schemas: dict[bytes, str] = {}
    for each, schema in cast("dict[str, object]", _limited(found or {})).items():
        if not (each.isascii() and each.isdigit() and len(each) <= 10 and int(each) < 1 << 32):
            raise ConfigError(f"option avroSchemas has {each[:100]!r}, which is no id of a schema: 0 to 4294967295")
        schemas[int(each).to_bytes(4, "big")] = json.dumps(schema)
    return schemas


T = TypeVar("T", bound=Sized)


def _limited(found: T) -> T:
    if len(found) > _MAX_SCHEMAS:
        raise ConfigError(f"option avroSchemas has more than {_MAX_SCHEMAS} schemas")
    return found
