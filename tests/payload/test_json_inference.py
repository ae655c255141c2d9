"""The columns of JSON payloads: every expected type is what spark.read.json of Spark 4.3 infers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetspark import errors
from jetspark.payload.formats import infer_schema

LONG, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
TIME = pa.timestamp("us", "UTC")


def infer(*payloads: str, **options: str) -> dict[str, pa.DataType]:
    """Return the fields by name."""
    schema = infer_schema("json", pa.array([payload.encode() for payload in payloads], pa.binary()), options)
    return {field.name: field.type for field in schema}


@pytest.mark.parametrize(
    ("payloads", "fields"),
    [
        (['{"a":1}', '{"a":1.5,"b":"x"}'], {"a": DOUBLE, "b": TEXT}),
        (['{"a":null,"c":[],"d":{},"e":""}'], {"a": TEXT, "c": pa.list_(TEXT), "e": TEXT}),
        (['{"a":1}', '{"a":"x"}'], {"a": TEXT}),
        (['{"a":""}', '{"a":1}'], {"a": LONG}),
        (['{"a":true}', '{"a":5}'], {"a": TEXT}),
        (['{"a":12345678901234567890}', '{"a":1}'], {"a": pa.decimal128(20, 0)}),
        (['{"a":12345678901234567890}', '{"a":1.5}'], {"a": DOUBLE}),
        (['{"a":123456789012345678901234567890123456789}'], {"a": DOUBLE}),
        (['{"a":NaN}'], {"a": DOUBLE}),
        (['{"a":[1,2.5]}', '{"a":["x"]}'], {"a": pa.list_(TEXT)}),
        (['{"a":[[],[1]]}'], {"a": pa.list_(pa.list_(LONG))}),
        (['{"a":{"x":1}}', '{"a":{"y":2}}'], {"a": pa.struct([("x", LONG), ("y", LONG)])}),
        (['{"a":{"x":1}}', '{"a":5}'], {"a": TEXT}),
        (['{"a":[{"x":1},{"y":[]}]}'], {"a": pa.list_(pa.struct([("x", LONG), ("y", pa.list_(TEXT))]))}),
        (['{"":1,"b":2}'], {"b": LONG}),
        (['{"b":1,"B":2}'], {"B": LONG, "b": LONG}),
        (["{'a':1}"], {"a": LONG}),
        (['{"a":"2020-01-01 00:00:00"}'], {"a": TEXT}),
        (["bad", '{"a":5}', '{"a":1,"b":tru}', "3", "null", ""], {"a": LONG}),
    ],
)
def test_fields_have_the_narrowest_type_that_takes_all_values(
    payloads: list[str], fields: dict[str, pa.DataType]
) -> None:
    assert infer(*payloads) == fields


@pytest.mark.parametrize(
    ("options", "payload", "fields"),
    [
        ({"primitivesAsString": "true"}, '{"a":1.5,"b":true}', {"a": TEXT, "b": TEXT}),
        ({"prefersDecimal": "true"}, '{"a":"1,234.5","b":"x"}', {"a": pa.decimal128(5, 1), "b": TEXT}),
        ({"prefersDecimal": "true"}, '{"a":0.00,"b":1e-5}', {"a": pa.decimal128(2, 2), "b": pa.decimal128(5, 5)}),
        ({"dropFieldIfAllNull": "true"}, '{"a":null,"b":[null],"c":{"d":null},"e":1}', {"e": LONG}),
        (
            {"inferTimestamp": "true"},
            '{"a":"2020-01-01T00:00:00Z","b":"2020","c":"x"}',
            {"a": TIME, "b": TIME, "c": TEXT},
        ),
        ({"inferTimestamp": "true", "timestampFormat": "dd/MM/yyyy"}, '{"a":"01/02/2020"}', {"a": TIME}),
    ],
)
def test_options_choose_other_types(options: dict[str, str], payload: str, fields: dict[str, pa.DataType]) -> None:
    assert infer(payload, **options) == fields


def test_decimals_of_several_payloads_have_room_for_all() -> None:
    found = infer('{"a":1.5}', '{"a":1}', '{"a":123456.789}', prefersDecimal="true")
    assert found == {"a": pa.decimal128(23, 3)}


@pytest.mark.parametrize("payload", ["", "bad", "{}", "[1]", '{"a":{}}', '{"a":' + "[" * 5000])
def test_payloads_without_a_field_ask_for_a_schema(payload: str) -> None:
    with pytest.raises(errors.ConfigError, match="give a schema"):
        infer(payload)


def test_inference_differs_from_spark_where_spark_gives_no_usable_schema() -> None:
    assert infer('{"a":1,"a":"x"}') == {"a": TEXT}
    assert infer('{"a":{"x":1}}', '{"a":{"X":2}}') == {"a": pa.struct([("X", LONG), ("x", LONG)])}
    assert infer('{"a":1e10}', prefersDecimal="true") == {"a": DOUBLE}
    assert infer('[{"b":1}]', '{"a":"12:30"}', inferTimestamp="true") == {"a": TEXT}
