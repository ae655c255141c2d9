"""Avro schemas: their text as a tree of types, checked and of limited size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from jetspark.jetstream.errors import ConfigError

__all__ = ["MAX_TEXT", "AvroType", "fingerprint", "parse_schema"]

MAX_TEXT: Final = 1 << 20
MAX_DEPTH: Final = 64
MAX_TYPES: Final = 10_000
"""Types of a schema, each counted as often as it is used: a named type may be used many times."""

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL: Final[Mapping[str, str]] = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
"""Logical types that change the column; others, such as uuid, are ignored, as Spark does."""


@dataclass(frozen=True)
class AvroType:
    """One type of a schema.

    Attributes
    ----------
    kind
        Name of a primitive type, or `fixed`, `enum`, `array`, `map`, `record`, `union`.
    logical
        Its logical type, if that changes the column.
    name
        Full name of a named type.
    size
        Bytes of a fixed.
    symbols
        Of an enum.
    items
        Type of the items of an array, or of the values of a map.
    fields
        Names and types of a record.
    branches
        Types of a union.
    precision, scale
        Of a decimal.
    """

    kind: str
    logical: str = ""
    name: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()
    items: AvroType | None = None
    fields: tuple[tuple[str, AvroType], ...] = ()
    branches: tuple[AvroType, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """Return the type as errors name it."""
        if self.kind == "union":
            return f"union of {', '.join(map(str, self.branches))}"
        text = f"{self.kind} {self.name}" if self.name else self.kind
        if self.logical == "decimal":
            return f"{text} (decimal of precision {self.precision}, scale {self.scale})"
        return f"{text} ({self.logical})" if self.logical else text

    @property
    def min_size(self) -> int:
        """Bytes that a value has at least."""
        match self.kind:
            case "null":
                return 0
            case "fixed":
                return self.size
            case "record":
                return sum(each.min_size for _, each in self.fields)
            case "float":
                return 4
            case "double":
                return 8
        return 1

    @property
    def has_sequences(self) -> bool:
        """Whether it is or has an array or a map."""
        inner = [*self.branches, *(each for _, each in self.fields)]
        return self.items is not None or any(each.has_sequences for each in inner)


def parse_schema(text: str) -> AvroType:
    """Return the tree of a schema.

    Raises
    ------
    ConfigError
        The text is too large or not a schema; or the schema is recursive, too deep, or its top level is no record.
    """
    if len(text) > MAX_TEXT:
        raise ConfigError(f"the Avro schema has more than {MAX_TEXT} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the Avro schema is not JSON: {error}") from None
    parsed = _Parser().parse(found, "", "the schema", 0)
    if parsed.kind != "record":
        raise ConfigError(f"the top level of the Avro schema must be a record, whose fields are columns, not {parsed}")
    return parsed


def fingerprint(text: str) -> bytes:
    """Return the CRC-64-AVRO fingerprint of a schema that `parse_schema` takes, 8 bytes in the order of the header.

    Raises
    ------
    ConfigError
        The schema has no canonical form.
    """
    from fastavro import schema

    try:
        return bytes.fromhex(schema.fingerprint(schema.to_parsing_canonical_form(json.loads(text)), "CRC-64-AVRO"))
    except Exception as error:  # noqa: BLE001 - the library raises whatever its check meets
        raise ConfigError(f"the Avro schema has no fingerprint: {type(error).__name__}: {error}") from None


@dataclass
class _Parser:
    """Parses one schema: names are resolved, and named types are used like others."""

    named: dict[str, AvroType] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    count: int = 0

    def parse(self, found: object, space: str, path: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise ConfigError(f"the Avro schema is nested deeper than {MAX_DEPTH} types")
        self._add(1)
        if isinstance(found, str):
            return self._reference(found, space, path)
        if isinstance(found, list):
            return self._union(found, space, path, depth)
        if not isinstance(found, dict):
            raise _wrong(path, "a type is a name, an array or an object")
        kind = found.get("type")
        match kind:
            case "record" | "error":
                return self._record(found, space, path, depth)
            case "enum" | "fixed":
                return self._named(found, kind, space, path)
            case "array" | "map":
                key = "items" if kind == "array" else "values"
                if key not in found:
                    raise _wrong(path, f"an object of type {kind} needs {key}")
                items = self.parse(found[key], space, f"{path}.{key}", depth + 1)
                if not items.min_size and kind == "array":
                    raise _wrong(path, "the items of an array must take at least one byte")
                return AvroType(kind, items=items)
            case str() if kind in _PRIMITIVES:
                return _with_logical(AvroType(kind), found)
            case str():
                return self._reference(kind, space, path)
            case list() | dict():
                return self.parse(kind, space, path, depth + 1)
        raise _wrong(path, "an object needs a type")

    def _add(self, types: int) -> None:
        self.count += types
        if self.count > MAX_TYPES:
            raise ConfigError(f"the Avro schema has more than {MAX_TYPES} types, each counted as often as it is used")

    def _reference(self, name: str, space: str, path: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.named and full not in self.open:
            full = name
        if full in self.open:
            raise _wrong(path, f"record {full} has itself as a field; recursive types have no column")
        if full not in self.named:
            raise _wrong(path, f"there is no type {name[:100]!r}")
        self._add(_count(self.named[full]))
        return self.named[full]

    def _name(self, found: Mapping[str, object], space: str, path: str) -> tuple[str, str]:
        """Return the full name of a named type, and the namespace of the types inside of it."""
        name, given = found.get("name"), found.get("namespace", space)
        if not isinstance(name, str) or not isinstance(given, str):
            raise _wrong(path, f"an object of type {found['type']} needs a name")
        full = name if "." in name or not given else f"{given}.{name}"
        if not all(_NAME.fullmatch(part) for part in full.split(".")):
            raise _wrong(path, f"{full[:100]!r} is not a name")
        if full in self.named or full in self.open:
            raise _wrong(path, f"there are two types {full}")
        return full, full.rpartition(".")[0]

    def _record(self, found: Mapping[str, object], space: str, path: str, depth: int) -> AvroType:
        full, inner = self._name(found, space, path)
        listed = found.get("fields")
        if not isinstance(listed, list):
            raise _wrong(path, f"record {full} needs fields, an array")
        self.open.add(full)
        fields: dict[str, AvroType] = {}
        for each in listed:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise _wrong(path, f"a field of record {full} has no name, or a wrong one")
            if name in fields or "type" not in each:
                raise _wrong(path, f"record {full} has two fields {name}" if name in fields else f"{name} has no type")
            fields[name] = self.parse(each["type"], inner, f"field {name}", depth + 1)
        self.open.remove(full)
        self.named[full] = AvroType("record", name=full, fields=tuple(fields.items()))
        return self.named[full]

    def _named(self, found: Mapping[str, object], kind: str, space: str, path: str) -> AvroType:
        full, _ = self._name(found, space, path)
        if kind == "enum":
            symbols = found.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols) or not symbols:
                raise _wrong(path, f"enum {full} needs symbols, an array of strings")
            if len(set(symbols)) != len(symbols):
                raise _wrong(path, f"enum {full} has a symbol twice")
            parsed = AvroType("enum", name=full, symbols=tuple(symbols))
        else:
            size = found.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise _wrong(path, f"fixed {full} needs a size, the number of its bytes")
            parsed = _with_logical(AvroType("fixed", name=full, size=size), found)
        self.named[full] = parsed
        return parsed

    def _union(self, found: list[object], space: str, path: str, depth: int) -> AvroType:
        branches = tuple(self.parse(each, space, path, depth + 1) for each in found)
        names = [each.name or each.kind for each in branches]
        if not branches or "union" in names or len(set(names)) != len(names):
            raise _wrong(path, "a union has one or more types, each of them once, and no union among them")
        return AvroType("union", branches=branches)


def _count(node: AvroType) -> int:
    inner = [*node.branches, *(each for _, each in node.fields), *([node.items] if node.items else [])]
    return 1 + sum(map(_count, inner))


def _with_logical(node: AvroType, found: Mapping[str, object]) -> AvroType:
    """Return a type with its logical type; one that does not fit is ignored, as the specification asks."""
    logical = found.get("logicalType")
    if isinstance(logical, str) and _LOGICAL.get(logical) == node.kind:
        return AvroType(node.kind, logical)
    precision, scale = found.get("precision"), found.get("scale", 0)
    if logical != "decimal" or node.kind not in {"bytes", "fixed"}:
        return node
    if not (type(precision) is int and type(scale) is int and precision > 0 and 0 <= scale <= precision):
        return node
    if node.kind == "fixed" and (
        precision > 3 * node.size or (node.size < 64 and 10**precision > 1 << (8 * node.size - 1))
    ):
        return node
    return AvroType(node.kind, "decimal", name=node.name, size=node.size, precision=precision, scale=scale)


def _wrong(path: str, problem: str) -> ConfigError:
    return ConfigError(f"the Avro schema is wrong, {path}: {problem}")
