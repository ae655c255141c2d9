"""Payloads as Avro records."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.payload.avro_schemas import records

from jetspark import errors
from jetspark.payload import BadRecord
from jetspark.payload.formats import PayloadFormat, infer_schema, make_format

Values = list[tuple[dict[str, object], dict[str, object]]]


def _avro(schema: str, columns: pa.Schema | None = None, **options: str) -> PayloadFormat:
    options = {"avroSchema": schema, **options}
    return make_format("avro", infer_schema("avro", None, options) if columns is None else columns, options)


def _written(schema: str, values: list[dict[str, object]]) -> list[bytes]:
    """Return records as another library writes them."""
    parsed = fastavro.parse_schema(json.loads(schema))
    found = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        found.append(stream.getvalue())
    return found


@given(records())
@settings(max_examples=50)
def test_records_of_another_library_become_rows(example: tuple[str, Values]) -> None:
    schema, values = example
    avro = _avro(schema)
    decoded = avro.decode(pa.array(_written(schema, [written for written, _ in values]), pa.binary()))
    assert not decoded.bad
    assert decoded.rows.schema == avro.schema
    decoded.rows.validate(full=True)
    assert decoded.rows.to_pylist() == [read for _, read in values]


@given(records())
@settings(max_examples=50)
def test_rows_become_records_that_both_libraries_read(example: tuple[str, Values]) -> None:
    schema, values = example
    avro = pickle.loads(pickle.dumps(_avro(schema)))
    rows = pa.RecordBatch.from_pylist([read for _, read in values], avro.schema)
    payloads = avro.encode(rows)
    assert avro.decode(payloads).rows.equals(rows)
    parsed = fastavro.parse_schema(json.loads(schema))
    for payload, written in zip(payloads.to_pylist(), _written(schema, [each for each, _ in values]), strict=True):
        again = fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
        assert again == fastavro.schemaless_reader(io.BytesIO(written), parsed, None)


@given(records(), st.data())
@settings(max_examples=50)
def test_a_changed_payload_is_a_row_or_a_bad_record(example: tuple[str, Values], data: st.DataObject) -> None:
    schema, values = example
    avro = _avro(schema)
    payloads: list[bytes | None] = []
    for payload in _written(schema, [written for written, _ in values]):
        changed = bytearray(payload[: data.draw(st.integers(0, len(payload)))] if data.draw(st.booleans()) else payload)
        for _ in range(data.draw(st.integers(0, 3)) if changed else 0):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(
                st.sampled_from(b"\0\1\2\3\x7f\x80\xfe\xff")
            )
        payloads += [bytes(changed), data.draw(st.binary(max_size=40)), None]
    decoded = avro.decode(pa.array(payloads, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == avro.schema
    assert decoded.rows.num_rows == len(payloads)
    bad = [record.row for record in decoded.bad]
    assert bad == sorted(set(bad))
    for row, content in enumerate(payloads):
        if row in bad or content is None:
            assert all(column[row].as_py() is None for column in decoded.rows.columns)
            assert (row in bad) is (content is not None)
    # A payload is a row or a bad record whatever the others are.
    for row, content in enumerate(payloads):
        alone = avro.decode(pa.array([content], pa.binary()))
        assert [record.reason for record in alone.bad] == [each.reason for each in decoded.bad if each.row == row]
        # As text: NaN differs from itself, and Python has no dates after the year 9999.
        assert list(map(str, alone.rows.columns)) == list(map(str, decoded.rows.slice(row, 1).columns))


ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
            {"name": "before", "type": ["null", "State"]},
        ],
    }
)
COLUMNS = pa.schema([("state", pa.string()), ("id", pa.int64())])
ONE = b"\x02\x00\x02\x00"  # id 1, no note, DONE, no state before


def test_only_the_columns_of_the_schema_are_read_by_their_names() -> None:
    decoded = _avro(ORDER, COLUMNS).decode(pa.chunked_array([[b"", ONE, None, ONE]], pa.binary()).chunk(0).slice(1))
    assert decoded.rows.to_pydict() == {"state": ["DONE", None, "DONE"], "id": [1, None, 1]}
    assert not decoded.bad


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "the payload ends within field id"),
        (b"\x02\x02\x08abc", "the payload ends within field note"),
        (b"\x02\x02" + b"\xff" * 9 + b"\x01", "the payload ends within field note"),
        (b"\x02\x04a", "field note has no branch of its union"),
        (b"\x02\x03a", "field note has no branch of its union"),
        (b"\x02\x02\x02\xff\x00\x00", "field note is not UTF-8"),
        (b"\x02\x00\x04\x00", "field state has no symbol of enum shop.State"),
        (b"\x02\x00\x01\x00", "field state has no symbol of enum shop.State"),
        (b"\xff" * 10 + b"\x00\x00\x00", "field id is no number of 64 bits"),
        (ONE + b"!", "bytes follow the record"),
        (b'{"id": 1, "note": null}', "field note has no branch of its union"),
    ],
)
def test_a_bad_record_says_which_field_is_wrong(payload: bytes, reason: str) -> None:
    avro = _avro(ORDER)
    decoded = avro.decode(pa.array([ONE, payload, ONE], pa.binary()))
    assert decoded.bad == [BadRecord(1, reason)]
    assert decoded.rows.to_pydict()["id"] == [1, None, 1]


def _record(*types: object) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(types)]}
    )


LIST = {"type": "array", "items": "string"}


@pytest.mark.parametrize(
    "payload",
    [
        b"\x02\x08abc",
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # 2 ** 63 - 1 items
        b"\x01\x00",  # one item, in a block of no bytes
        b"\x02\x02\xff\x00",
        b"\x00!",
    ],
)
def test_an_array_of_wrong_bytes_is_a_bad_record(payload: bytes) -> None:
    decoded = _avro(_record(LIST)).decode(pa.array([b"\x02\x02a\x00", payload], pa.binary()))
    assert [record.row for record in decoded.bad] == [1]
    assert decoded.rows.to_pydict() == {"f0": [["a"], None]}


@pytest.mark.parametrize(
    ("avro", "column"),
    [
        ("int", pa.int32()),
        ("int", pa.int64()),
        ("int", pa.float64()),
        ("int", pa.date32()),
        ("float", pa.float64()),
        ("long", pa.timestamp("us", "UTC")),
        ("long", pa.timestamp("ms")),
        ({"type": "int", "logicalType": "date"}, pa.int32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("ns", "Europe/Berlin")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("ns")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("ns")),
        (["int", "long"], pa.int64()),
        (["null", "double", "float"], pa.float64()),
        (["string"], pa.large_string()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, pa.decimal128(38, 3)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, pa.binary()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "array", "items": ["null", "int"]}, pa.large_list(pa.int64())),
        ("null", pa.null()),
    ],
    ids=str,
)
def test_a_type_becomes_each_column_that_spark_makes_of_it(avro: object, column: pa.DataType) -> None:
    made = _avro(_record(avro), pa.schema([("f0", column)]))
    value = {"string": "1", "large_string": "1", "binary": b"\x01", "null": None, "large_list<item: int64>": [1]}
    if pa.types.is_temporal(column):
        values = pa.array([5_000_000], pa.int32() if column.bit_width == 32 else pa.int64()).view(column)
    else:
        values = pa.array([value.get(str(column), 1)]).cast(column)
    rows = pa.RecordBatch.from_arrays([values], schema=made.schema)
    decoded = made.decode(made.encode(rows))
    assert not decoded.bad
    assert decoded.rows.equals(rows)


@pytest.mark.parametrize(
    ("avro", "column", "problem"),
    [
        ("long", pa.int32(), r"column f0 is int32, but the Avro type is long, which becomes int64"),
        ("string", pa.int64(), r"column f0 is int64, but the Avro type is string"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us", "UTC"), r"local-timestamp"),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("ms", "UTC"), r"timestamp\[ms"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 3), r"precision 9"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, pa.decimal128(38, 0), r"precision 50"),
        (["int", "string"], pa.string(), r"union of int, string, which becomes struct<member0"),
        (["int", "string"], pa.struct([("member2", pa.string())]), r"f0.member2 .*members are member0, member1"),
        (LIST, pa.list_(pa.int64()), r"column f0.element is int64"),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.string()), r"column f0.value is string"),
        ({"type": "record", "name": "N", "fields": [{"name": "a", "type": "int"}]}, pa.struct([("b", pa.int32())]),
         r"column f0.b \(int32\): record N of the Avro schema has no such field"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_column_that_the_schema_cannot_give_is_refused(avro: object, column: pa.DataType, problem: str) -> None:
    with pytest.raises(errors.ConfigError, match=problem):
        _avro(_record(avro), pa.schema([("f0", column)]))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('"int"', "top level of the Avro schema must be a record"),
        ("5", "a type is a name, an array or an object"),
        ('{"type": "record", "name": "R"}', "record R needs fields"),
        ('{"type": "record", "name": "9", "fields": []}', "'9' is not a name"),
        (_record("strin"), "field f0: there is no type 'strin'"),
        (_record(["null", "R"]), "record R has itself as a field"),
        (_record(["int", "int"]), "each of them once"),
        (_record({"type": "enum", "name": "E", "symbols": ["A", "A"]}), "enum E has a symbol twice"),
        (_record({"type": "fixed", "name": "F", "size": -1}), "fixed F needs a size"),
        (_record({"type": "array", "items": "null"}), "items of an array must take at least one byte"),
        (_record({"type": "map"}), "an object of type map needs values"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}), "two fields a"),
        ("x" * (1 << 20) + "x", "more than 1048576 characters"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_schema_that_is_wrong_is_refused(schema: str, problem: str) -> None:
    with pytest.raises(errors.ConfigError, match=problem):
        _avro(schema, pa.schema([("f0", pa.int32())]))


def test_a_schema_that_grows_when_its_names_are_followed_is_refused() -> None:
    fields: list[object] = ["int"]
    for depth in range(40):
        kind = {"type": "record", "name": f"N{depth}", "fields": [{"name": "a", "type": fields[-1]}]}
        fields.append({**kind, "fields": [*kind["fields"], {"name": "b", "type": f"N{depth - 1}" if depth else "int"}]})
    with pytest.raises(errors.ConfigError, match="more than 10000 types"):
        _avro(_record(fields[-1]), pa.schema([("f0", pa.int32())]))
    deep: object = "int"
    for _ in range(70):
        deep = {"type": "map", "values": deep}
    with pytest.raises(errors.ConfigError, match="deeper than 64"):
        _avro(_record(deep), pa.schema([("f0", pa.int32())]))


def test_names_of_types_are_found_in_their_namespace() -> None:
    schema = {
        "type": "record", "name": "R", "namespace": "a.b",
        "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "F", "size": 1}},
            {"name": "y", "type": {"type": "record", "name": "c.S", "fields": [{"name": "z", "type": "a.b.F"}]}},
            {"name": "w", "type": "F"},
        ],
    }  # fmt: skip
    rows = _avro(json.dumps(schema)).decode(pa.array([b"123"], pa.binary())).rows
    assert rows.to_pylist() == [{"x": b"1", "y": {"z": b"2"}, "w": b"3"}]


def test_a_single_object_has_the_fingerprint_of_its_schema() -> None:
    avro = _avro(ORDER, avroEncoding="single-object")
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(ORDER))
    head = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    rows = _avro(ORDER).decode(pa.array([ONE], pa.binary())).rows
    assert avro.encode(rows).to_pylist() == [head + ONE]
    payloads = pa.array(
        [head + ONE, b"\xc3\x01" + bytes(8) + ONE, head[:-1], None, ONE, b"", head + b"\x02"], pa.binary()
    )
    decoded = avro.decode(payloads)
    assert decoded.rows.to_pydict()["id"] == [1, None, None, None, None, None, None]
    missing = "the payload does not begin with the header c301 and a fingerprint"
    assert decoded.bad == [
        BadRecord(1, "the payload has a schema that is not known: fingerprint 0000000000000000"),
        BadRecord(2, missing),
        BadRecord(4, missing),
        BadRecord(5, missing),
        BadRecord(6, "the payload ends within field note"),
    ]


def test_the_fingerprint_is_that_of_the_specification() -> None:
    from jetspark.payload.avro.schema import fingerprint

    assert fingerprint('"int"') == 0x7275D51A3F395C8F.to_bytes(8, "little")


def test_the_confluent_header_has_an_id_and_each_id_a_schema() -> None:
    old = _record("long")
    new = _record("string", "long")
    wanted = pa.schema([("f1", pa.int64())])
    both = _avro(
        new, wanted, avroEncoding="confluent", avroSchemaId="8", avroSchemas=json.dumps({"7": json.loads(old)})
    )
    payloads = pa.array([b"\0\0\0\0\x08\x02a\x04", b"\0\0\0\0\x07\x04", b"\0\0\0\1\0", None], pa.binary())
    decoded = pickle.loads(pickle.dumps(both)).decode(payloads)
    assert decoded.rows.to_pydict() == {"f1": [2, None, None, None]}
    assert decoded.bad == [BadRecord(2, "the payload has a schema that is not known: schema id 256")]
    with pytest.raises(errors.ConfigError, match=r"field f0 .string. of the Avro schema may not be null"):
        both.encode(decoded.rows)


def test_a_schema_that_a_write_cannot_fill_is_refused_when_the_write_is_planned() -> None:
    options = {"avroSchema": ORDER}
    assert make_format("avro", COLUMNS, options, to_encode=True).schema == COLUMNS
    with pytest.raises(errors.ConfigError, match=r"field state .enum shop.State. of the Avro schema may not be null"):
        make_format("avro", pa.schema([("id", pa.int64())]), options, to_encode=True)
    with pytest.raises(errors.ConfigError, match="set avroSchemaId"):
        make_format("avro", COLUMNS, {**options, "avroEncoding": "confluent"}, to_encode=True)


def test_without_an_id_all_ids_are_read_and_none_is_written() -> None:
    avro = _avro(_record("long"), avroEncoding="confluent")
    decoded = avro.decode(pa.array([b"\0\0\0\0\x08\x02", b"\0\xff\xff\xff\xff\x04"], pa.binary()))
    assert decoded.rows.to_pydict() == {"f0": [1, 2]}
    with pytest.raises(errors.ConfigError, match="set avroSchemaId"):
        avro.encode(decoded.rows)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs option avroSchema, avroSchemaFile or avroSchemas"),
        ({"avroSchema": ORDER, "avroSchemaFile": "x"}, "contradict"),
        ({"avroSchemaFile": "/dev/zero"}, "not a regular file"),
        ({"avroSchemaFile": "/nowhere/x.avsc"}, "cannot read the file of the Avro schema /nowhere/x.avsc"),
        ({"avroSchema": ORDER, "avroEncoding": "base64"}, "must be binary, single-object or confluent"),
        ({"avroSchema": ORDER, "avroSchemaId": "1"}, "only confluent has ids"),
        ({"avroSchema": ORDER, "avroSchemaId": "-1", "avroEncoding": "confluent"}, "from 0 to 4294967295"),
        ({"avroSchema": ORDER, "avroSchemas": "{}"}, "such payloads name no schema"),
        ({"avroSchemas": "{", "avroEncoding": "confluent"}, "avroSchemas is not JSON"),
        ({"avroSchemas": "[]", "avroEncoding": "confluent"}, "an object of ids"),
        ({"avroSchemas": "{}", "avroEncoding": "single-object"}, "an array of schemas"),
        ({"avroSchemas": '{"x": "int"}', "avroEncoding": "confluent"}, "'x', which is no id"),
        ({"avroSchemas": '{"1": "int"}', "avroSchemaId": "2", "avroEncoding": "confluent"}, "no schema with this id"),
        ({"avroSchema": ORDER, "avroSchemas": '{"1": "int"}', "avroEncoding": "confluent"}, "need avroSchemaId"),
    ],
    ids=str,
)
def test_options_that_are_wrong_or_contradict_each_other_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(errors.ConfigError, match=problem):
        make_format("avro", COLUMNS, options)


def test_the_schema_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(ORDER)
    avro = make_format("avro", COLUMNS, {"avroSchemaFile": str(path)})
    path.unlink()
    again = pickle.loads(pickle.dumps(avro))
    assert again.decode(pa.array([ONE], pa.binary())).rows.to_pydict() == {"state": ["DONE"], "id": [1]}


@pytest.mark.parametrize(
    ("avro", "values", "problem"),
    [
        ("long", pa.array([1, None]), "row 1, column f0: it is null"),
        ("int", pa.array([1, 1 << 31]), "row 1, column f0: 2147483648 does not fit int"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["A", "B"]), "row 1, column f0: B does not"),
        ({"type": "fixed", "name": "F", "size": 1}, pa.array([b"a", b"ab"]), "row 1, column f0: 2 bytes does not"),
        (LIST, pa.array([["a"], ["b", None]]), "row 1, column f0.element: it is null"),
        (["int", "string"], pa.array([{"member0": 1, "member1": None}, {"member0": None, "member1": None}],
         pa.struct([("member0", pa.int32()), ("member1", pa.string())])), "row 1, column f0: no member"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_value_that_the_schema_does_not_have_is_refused_with_row_and_column(
    avro: object, values: pa.Array, problem: str
) -> None:
    made = _avro(_record(avro), pa.schema([("f0", values.type)]) if avro != "int" else pa.schema([("f0", pa.int64())]))
    with pytest.raises(errors.PayloadError, match=problem):
        made.encode(pa.RecordBatch.from_arrays([values], schema=made.schema))


def test_without_its_package_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jetspark\[avro\]'"):
        _avro(ORDER)
