"""JSON payloads row by row: every expected value is what Spark 4.3 gives for the same text."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from jetspark import errors
from jetspark.payload.json.rows import RowDecoder
from jetspark.payload.options import parse_format_options

TEXT_AND_INT = pa.schema([("a", pa.string()), ("b", pa.int32())])
NESTED = pa.schema(
    [
        ("m", pa.map_(pa.string(), pa.int32())),
        ("l", pa.list_(pa.int32())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


def decode(schema: pa.Schema, payload: str | bytes, **options: str) -> tuple[list[object], bool]:
    """Return the values, and whether the record is malformed."""
    decoder = pickle.loads(pickle.dumps(RowDecoder(schema, parse_format_options("json", options))))
    values, reason = decoder.decode_row(payload if isinstance(payload, bytes) else payload.encode())
    assert reason is None or len(reason) <= 300
    return values, reason is not None


def value(kind: pa.DataType, text: str, **options: str) -> object:
    """Return the value of a field, or "bad"."""
    values, bad = decode(pa.schema([("v", kind)]), f'{{"v":{text}}}', **options)
    assert not bad or values == [None]
    return "bad" if bad else values[0]


@pytest.mark.parametrize(
    ("payload", "values", "bad"),
    [
        ('{"a":"x","b":2}', ["x", 2], False),
        ('{"b":2,"c":[1,{"b":3}],"a":null}', [None, 2], False),
        ('{"b":2,"b":3}', [None, 3], False),
        ('{"b":1,"b":null}', [None, None], False),
        ('{"b":1,"b":"x"}', [None, 1], True),
        ('{"B":2}', [None, None], False),
        ("", [None, None], False),
        ("  \n", [None, None], False),
        ("{}", [None, None], False),
        ("null", [None, None], True),
        ("3", [None, None], True),
        ("[]", [None, None], True),
        ('[{"a":"q","b":1}]', [None, None], True),
        ('{"b":2} {"b":3}', [None, 2], False),
        ('{"b":2} x', [None, 2], False),
        ('{"b":2', [None, None], True),
        ('{"b":2,}', [None, None], True),
        ('{"b":2 "a":"x"}', [None, None], True),
        (b'\xef\xbb\xbf{"b":1}', [None, None], True),
        ('{"b":7}'.encode("utf-16"), [None, None], True),
        (b'{"a":"\xff","b":1}', ["\ufffd", 1], False),
        (b'{"a":"\xed\xa0\x80|\xe2\x82|\xe0\x80\x80"}', ["\ufffd|\ufffd|\ufffd\ufffd\ufffd", None], False),
        ("{'b':1,\"a\":'x\\'y'}", ["x'y", 1], False),
        ("{b:1}", [None, None], True),
        ('{"a":"x\ty"}', [None, None], True),
        ('{"\\u0062" : 1}', [None, 1], False),
    ],
)  # fmt: skip
def test_a_document_gives_these_values(payload: str | bytes, values: list[object], bad: bool) -> None:
    assert decode(TEXT_AND_INT, payload) == (values, bad)


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        ('{"a":true,"b":"3"}', ["true", None]),
        ('{"b":2.0,"a":"z"}', ["z", None]),
        ('{"b":[1,{"b":2}],"a":"z"}', ["z", None]),
        ('{"a":"x\\q,"b":2}', [None, 2]),
        ('{"b":"x\n,"b":9}', [None, 9]),
        ('{"a":"x\\qy","b":2}', [None, None]),
        ('{"a":tru,"b":2}', [None, None]),
        ('{"a":[tru,2],"b":1}', [None, 1]),
        ('{"a":[1.,2],"b":1}', [None, 1]),
        ('{"a":[0.,2],"b":1}', [None, None]),
        ('{"a":{"x": tru}, "b":2}', [None, None]),
    ],
)
def test_spark_reads_on_after_a_fault(payload: str, values: list[object]) -> None:
    assert decode(TEXT_AND_INT, payload) == (values, True)


@pytest.mark.parametrize(
    ("payload", "values", "bad"),
    [
        ('{"m":{"a":1,"a":2}}', [[("a", 1), ("a", 2)], None, None], False),
        ('{"m":{"a":"x","b":2},"l":[1]}', [None, [1], None], True),
        ('{"l":[1,"x",3],"m":{"a":1}}', [[("a", 1)], None, None], True),
        ('{"l":[1,null],"m":{"z":null}}', [[("z", None)], [1, None], None], False),
        ('{"s":{"x":"q","y":"z"},"l":[1]}', [None, [1], {"x": None, "y": "z"}], True),
        ('{"s":[1],"l":[2]}', [None, [2], None], True),
        ('{"l":{"a":1},"m":[1],"s":{"x":1}}', [None, None, {"x": 1, "y": None}], True),
    ],
)
def test_nested_values_keep_what_can_be_read(payload: str, values: list[object], bad: bool) -> None:
    assert decode(NESTED, payload) == (values, bad)


def test_an_array_of_structs_keeps_its_partial_elements() -> None:
    schema = pa.schema([("v", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())])))])
    assert decode(schema, '{"v":[{"x":1,"y":"q"},{"x":2,"y":3}]}') == (
        [[{"x": 1, "y": None}, {"x": 2, "y": 3}]],
        True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"x" : 1.50, "y":[1, 2 ]}', '{"x":1.5,"y":[1,2]}'),
        ("1.0e3", "1000.0"),
        ("-0", "0"),
        ("NaN", '"NaN"'),
        ("-INF", '"-Infinity"'),
        ("[1e400,-0.0,100000000000000000000000000]", '["Infinity",-0.0,100000000000000000000000000]'),
        ("[12345678.9,0.0001,1e7,5e-324,0.1e1,123456.5]", "[1.23456789E7,1.0E-4,1.0E7,4.9E-324,1.0,123456.5]"),
        ("[0.001,0.012,1e22,9999999.0]", "[0.001,0.012,1.0E22,9999999.0]"),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ("  {  } ", "{}"),
        ('{"x":"\U0001f600\u00e9"}', '{"x":"\\uD83D\\uDE00\u00e9"}'),
        ('{"x":"\\u0001\\n\\/\\u007f"}', '{"x":"\\u0001\\n/\x7f"}'),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\ud800x"', "?x"),
    ],
)
def test_text_columns_take_every_value_as_json(text: str, expected: str) -> None:
    assert value(pa.string(), text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int8(), "200", -56),
        (pa.int8(), "255", -1),
        (pa.int8(), "256", "bad"),
        (pa.int8(), "-128", -128),
        (pa.int8(), "-129", "bad"),
        (pa.int16(), "32768", "bad"),
        (pa.int32(), "1e2", "bad"),
        (pa.int32(), "1.0", "bad"),
        (pa.int32(), '"1"', "bad"),
        (pa.int32(), "01", "bad"),
        (pa.int64(), "9223372036854775807", 9223372036854775807),
        (pa.int64(), "9223372036854775808", "bad"),
        (pa.bool_(), "true", True),
        (pa.bool_(), '"true"', "bad"),
        (pa.bool_(), "1", "bad"),
        (pa.float64(), "1e400", float("inf")),
        (pa.float64(), "9007199254740993", 9007199254740992.0),
        (pa.float64(), '"-INF"', float("-inf")),
        (pa.float64(), '"INF"', "bad"),
        (pa.float64(), '"1.5"', "bad"),
        (pa.float32(), "1e39", float("inf")),
        (pa.float32(), "16777217", 16777216.0),
        (pa.float32(), "1.000000059604644775390625", 1.0),
        (pa.float32(), "1.00000005960464477539062500000000001", 1.0000001192092896),
        (pa.decimal128(10, 2), "1.005", Decimal("1.01")),
        (pa.decimal128(10, 2), '"1,234.565"', Decimal("1234.57")),
        (pa.decimal128(10, 2), "99999999.995", "bad"),
        (pa.decimal128(10, 2), "1e7", Decimal("10000000.00")),
        (pa.decimal128(10, 2), "1e8", "bad"),
        (pa.decimal128(10, 2), "1e-400", Decimal("0.00")),
        (pa.decimal128(10, 2), '" 1"', "bad"),
        (pa.decimal128(10, 2), '".5"', Decimal("0.50")),
        (pa.decimal128(10, 2), "NaN", "bad"),
        (pa.decimal128(10, 2), '""', "bad"),
        (pa.binary(), '"AQID"', b"\x01\x02\x03"),
        (pa.binary(), '"AQI="', b"\x01\x02"),
        (pa.binary(), "'AQI='", b"\x01\x02"),
        (pa.binary(), '"AQI"', "bad"),
        (pa.binary(), '""', b""),
        (pa.binary(), '" AQID"', b"\x01\x02\x03"),
        (pa.binary(), '"A Q\\nID"', "bad"),
        (pa.binary(), "5", "bad"),
        (pa.null(), "5", None),
    ],
)  # fmt: skip
def test_a_value_is_read_as_its_type(kind: pa.DataType, text: str, expected: object) -> None:
    assert value(kind, text) == expected


def test_a_value_of_another_type_names_its_field() -> None:
    decoder = RowDecoder(TEXT_AND_INT, parse_format_options("json", {}))
    _, reason = decoder.decode_row(b'{"b":"x"}')
    assert reason == "field 'b': text is not an integer of 32 bits (before character 8)"


@pytest.mark.parametrize(
    ("option", "text", "kind", "without", "expected"),
    [
        ("allowComments", "/* c */ 1 // d\n", pa.int32(), "bad", 1),
        ("allowNumericLeadingZeros", "-007", pa.int32(), "bad", -7),
        ("allowNumericLeadingZeros", "00.5", pa.float64(), "bad", 0.5),
        ("allowUnquotedControlChars", '"x\ty"', pa.string(), "bad", "x\ty"),
        ("allowBackslashEscapingAnyCharacter", '"\\q"', pa.string(), "bad", "q"),
    ],
)
def test_an_option_allows_more(option: str, text: str, kind: pa.DataType, without: object, expected: object) -> None:
    assert value(kind, text) == without
    assert value(kind, text, **{option: "true"}) == expected


@pytest.mark.parametrize(
    ("option", "text", "kind", "expected"),
    [
        ("allowSingleQuotes", "'x'", pa.string(), "x"),
        ("allowNonNumericNumbers", "NaN", pa.string(), '"NaN"'),
        ("allowNonNumericNumbers", '"+INF"', pa.float64(), float("inf")),
    ],
)
def test_an_option_allows_less(option: str, text: str, kind: pa.DataType, expected: object) -> None:
    assert value(kind, text) == expected
    assert value(kind, text, **{option: "false"}) == "bad"


def test_names_may_lack_quotes() -> None:
    assert decode(TEXT_AND_INT, '{a:"x",b:1}', allowUnquotedFieldNames="true") == (["x", 1], False)


def test_a_payload_is_limited_in_depth_and_in_the_length_of_numbers_and_text() -> None:
    assert not decode(TEXT_AND_INT, '{"c":' + "[" * 999 + "]" * 999 + ',"b":1}')[1]
    assert decode(TEXT_AND_INT, '{"c":' + "[" * 1000 + "]" * 1000 + ',"b":1}')[1]
    assert value(pa.float64(), "1" * 1000) == float("inf")
    assert value(pa.float64(), "1" * 1001) == "bad"
    assert value(pa.string(), '"xxxx"', maxStringLen="3") == "bad"
    assert value(pa.float64(), "1e9999999") == float("inf")
    assert value(pa.decimal128(10, 2), "1e2147483648") == "bad"


@pytest.mark.parametrize("payload", ['{"a":' + "[" * 200_000, '{"a":"' + "\\" * 400_000, '{"a":' + '{"a":' * 100_000])
def test_a_hostile_payload_is_a_bad_record(payload: str) -> None:
    assert decode(TEXT_AND_INT, payload)[1]


@pytest.mark.parametrize(
    "kind",
    [pa.uint8(), pa.time64("us"), pa.duration("s"), pa.map_(pa.int32(), pa.string()), pa.decimal256(50, 2)],
    ids=str,
)
def test_a_type_that_json_cannot_give_is_refused_by_name(kind: pa.DataType) -> None:
    schema = pa.schema([("outer", pa.list_(pa.struct([("inner", kind)])))])
    with pytest.raises(errors.ConfigError, match=r"cannot give field outer\.element\.inner of type"):
        RowDecoder(schema, parse_format_options("json", {}))


def test_a_field_that_is_named_twice_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="names a field twice"):
        RowDecoder(pa.schema([("a", pa.int8()), ("a", pa.int8())]), parse_format_options("json", {}))
