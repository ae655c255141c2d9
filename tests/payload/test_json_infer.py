"""The inferred fields of JSON payloads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetspark.errors import ConfigError
from jetspark.payload.formats import infer_schema


def inferred(*payloads: bytes, **options: str) -> dict[str, str]:
    schema = infer_schema("json", pa.array(payloads, pa.binary()), options)
    return {field.name: str(field.type).replace("item: ", "") for field in schema}


def test_fields_of_all_payloads_come_in_the_order_of_their_names() -> None:
    found = inferred(b'{"b": 1, "a": "x"}', b'{"c": true}', b'{"a": null, "b": 2.5}')
    assert list(found.items()) == [("a", "string"), ("b", "double"), ("c", "bool")]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("1", "-9223372036854775808"), "int64"),
        (("1", "1.0"), "double"),
        (("1", "1e3"), "double"),
        (("1", "NaN"), "double"),
        (("9223372036854775808",), "decimal128(19, 0)"),
        (("9223372036854775808", "1"), "decimal128(20, 0)"),
        (("9223372036854775808", "1.5"), "double"),
        (("1" * 39,), "double"),
        (("1", '"x"'), "string"),
        (("1", "true"), "string"),
        (("1", '""'), "int64"),
        (("null",), "string"),
        (('""',), "string"),
        (("[]", "[1]", "[2.5, null]"), "list<double>"),
        (("[]",), "list<string>"),
        (("[1]", "1"), "string"),
        (('{"x": 1}', '{"y": ["a"]}'), "struct<x: int64, y: list<string>>"),
        (('[{"x": 1}, {"x": "a"}]',), "list<struct<x: string>>"),
        (('{"x": 1}', "1"), "string"),
    ],
)
def test_a_type_fits_all_values(values: tuple[str, ...], kind: str) -> None:
    assert inferred(*(f'{{"v": {value}}}'.encode() for value in values)) == {"v": kind}


def test_payloads_that_are_no_objects_are_left_out() -> None:
    assert inferred(b"{", b"", b"1", b"\xff", b'{"a": 1}', b'[{"b": 2}]', b'{"": 1, "c": {}}') == {"a": "int64"}
    with pytest.raises(ConfigError, match="none of 2 payloads is a JSON object with fields; give a schema"):
        inferred(b"{}", b"one")


def test_options_of_the_format_apply() -> None:
    assert inferred(b"{'a': 1}") == {"a": "int64"}
    with pytest.raises(ConfigError, match="none of 1 payloads"):
        inferred(b"{'a': 1}", allowSingleQuotes="false")
