"""Payloads as Protobuf messages."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.payload.protobuf_messages import filled, messages

from jetspark import errors
from jetspark.payload import BadRecord
from jetspark.payload.formats import PayloadFormat, infer_schema, make_format

F = FieldDescriptorProto
Example = tuple[bytes, str, list[tuple[dict[str, Any], dict[str, Any]]]]


def _options(descriptors: bytes, name: str, **options: str) -> dict[str, str]:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return {"protobufDescriptor": base64.b64encode(descriptors).decode(), "messageName": name, **given}


def _protobuf(descriptors: bytes, name: str, columns: pa.Schema | None = None, **options: str) -> PayloadFormat:
    given = _options(descriptors, name, **options)
    return make_format("protobuf", infer_schema("protobuf", None, given) if columns is None else columns, given)


def _class(descriptors: bytes, name: str) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    for file in reversed(FileDescriptorSet.FromString(descriptors).file):
        pool.AddSerializedFile(file.SerializeToString())
    kind: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return kind


def _written(example: Example) -> list[bytes]:
    kind = _class(example[0], f"g.{example[1]}")
    return [filled(kind(), written).SerializeToString() for written, _ in example[2]]


def _rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    return list(rows.to_pylist(maps_as_pydicts="strict"))


@given(messages())
@settings(max_examples=50)
def test_messages_of_the_library_become_rows(example: Example) -> None:
    protobuf = _protobuf(*example[:2])
    decoded = protobuf.decode(pa.array(_written(example), pa.binary()))
    assert not decoded.bad
    assert decoded.rows.schema == protobuf.schema
    decoded.rows.validate(full=True)
    assert _rows(decoded.rows) == [read for _, read in example[2]]


@given(messages())
@settings(max_examples=50)
def test_rows_become_messages_that_the_library_reads(example: Example) -> None:
    protobuf = pickle.loads(pickle.dumps(_protobuf(*example[:2])))
    rows = protobuf.decode(pa.array(_written(example), pa.binary())).rows
    payloads = protobuf.encode(rows)
    kind = _class(example[0], f"g.{example[1]}")
    found = [kind.FromString(payload) for payload in payloads.to_pylist()]
    assert found == [kind.FromString(payload) for payload in _written(example)]


@given(messages(), st.data())
@settings(max_examples=50)
def test_a_changed_payload_is_a_row_or_a_bad_record(example: Example, data: st.DataObject) -> None:
    protobuf = _protobuf(*example[:2])
    payloads: list[bytes | None] = []
    for payload in _written(example):
        changed = bytearray(payload[: data.draw(st.integers(0, len(payload)))] if data.draw(st.booleans()) else payload)
        for _ in range(data.draw(st.integers(0, 3)) if changed else 0):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.sampled_from(b"\0\1\2\x0b\x7f\x80\xff"))
        payloads += [bytes(changed), data.draw(st.binary(max_size=40)), None]
    decoded = protobuf.decode(pa.array(payloads, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == protobuf.schema
    assert decoded.rows.num_rows == len(payloads)
    bad = [record.row for record in decoded.bad]
    assert bad == sorted(set(bad))
    for row, content in enumerate(payloads):
        if row in bad or content is None:
            assert all(column[row].as_py() is None for column in decoded.rows.columns)
            assert (row in bad) is (content is not None)
        alone = protobuf.decode(pa.array([content], pa.binary()))
        assert [record.reason for record in alone.bad] == [each.reason for each in decoded.bad if each.row == row]
        assert repr(_rows(alone.rows)) == repr(_rows(decoded.rows.slice(row, 1)))  # NaN differs from itself


def _file(name: str, syntax: str = "proto3", package: str = "shop") -> FileDescriptorProto:
    return FileDescriptorProto(name=name, package=package, syntax=syntax)


def _set(*files: FileDescriptorProto) -> bytes:
    return bytes(FileDescriptorSet(file=files).SerializeToString())


def _add(message: Any, name: str, kind: int, type_name: str = "", label: int = F.LABEL_OPTIONAL, **more: Any) -> None:
    message.field.add(
        name=name, number=len(message.field) + 1, type=kind, type_name=type_name or None, label=label, **more
    )


def _google() -> list[FileDescriptorProto]:
    from google.protobuf import duration_pb2, timestamp_pb2, wrappers_pb2

    found = []
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2):
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        found.append(file)
    return found


def _order() -> bytes:
    file = _file("order.proto")
    google = _google()
    file.dependency.extend(each.name for each in google)
    order = file.message_type.add(name="Order")
    _add(order, "id", F.TYPE_UINT64)
    _add(order, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _add(order, "took", F.TYPE_MESSAGE, ".google.protobuf.Duration")
    _add(order, "note", F.TYPE_MESSAGE, ".google.protobuf.StringValue")
    _add(order, "count", F.TYPE_MESSAGE, ".google.protobuf.UInt32Value")
    _add(order, "parent", F.TYPE_MESSAGE, ".shop.Order")
    return _set(file, *google)  # the imports come last, which is allowed


ORDER = _order()


def test_well_known_types_are_times_durations_and_values() -> None:
    columns = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")), ("took", pa.duration("us")), ("note", pa.string()),
            ("count", pa.int64()), ("id", pa.decimal128(20, 0)),
        ]
    )  # fmt: skip
    protobuf = _protobuf(ORDER, "Order", columns)
    kind = _class(ORDER, "shop.Order")
    message: Any = kind(id=2**64 - 1)
    message.at.seconds, message.at.nanos = -1, 999_999_999
    message.took.seconds, message.took.nanos = -1, -500_000_000
    message.note.SetInParent()
    message.count.value = 2**32 - 1
    wide: Any = kind()
    wide.at.seconds = 2**62
    decoded = protobuf.decode(pa.array([message.SerializeToString(), b"", wide.SerializeToString()], pa.binary()))
    assert decoded.rows.select(["note", "count"]).to_pylist()[0] == {"note": "", "count": 2**32 - 1}
    assert [decoded.rows[name].cast(pa.int64()).to_pylist() for name in ("at", "took")] == [
        [-1, None, None],
        [-1_500_000, None, None],
    ]
    assert str(decoded.rows["id"][0].as_py()) == str(2**64 - 1)
    assert decoded.bad == [BadRecord(2, "field at is out of range")]
    rows = decoded.rows.slice(0, 2)
    assert protobuf.decode(protobuf.encode(rows)).rows.equals(rows)


def test_inferred_columns_follow_the_options_of_spark() -> None:
    with pytest.raises(errors.ConfigError, match=r"shop.Order.parent: message shop.Order is inside of itself"):
        infer_schema("protobuf", None, _options(ORDER, "Order"))
    plain = infer_schema("protobuf", None, _options(ORDER, "Order", recursive_fields_max_depth="1"))
    assert plain.names == ["id", "at", "took", "note", "count"]
    assert plain.field("id").type == pa.int64()
    assert plain.field("note").type == pa.struct([("value", pa.string())])
    wide = infer_schema(
        "protobuf", None,
        {
            **_options(ORDER, "shop.Order", recursive_fields_max_depth="2"),
            "upcast.unsigned.ints": "true", "unwrap.primitive.wrapper.types": "true",
        },
    )  # fmt: skip
    assert wide.field("id").type == pa.decimal128(20, 0)
    assert wide.field("count").type == pa.int64()
    assert wide.field("parent").type == pa.struct(list(wide)[:-1])


def _state() -> bytes:
    file = _file("state.proto", "proto2")
    kind = file.enum_type.add(name="State")
    for name, number in (("OPEN", 1), ("DONE", 2)):
        kind.value.add(name=name, number=number)
    message = file.message_type.add(name="Item")
    _add(message, "id", F.TYPE_INT32, label=F.LABEL_REQUIRED)
    _add(message, "name", F.TYPE_STRING, default_value="caf\u00e9")
    _add(message, "state", F.TYPE_ENUM, ".shop.State", default_value="DONE")
    _add(message, "price", F.TYPE_DOUBLE)
    return _set(file)


def test_defaults_and_required_fields_of_proto2() -> None:
    item = _state()
    protobuf = _protobuf(item, "Item", emit_default_values="true")
    kind = _class(item, "shop.Item")
    written = [kind(id=0, name="", state=1), kind(id=3)]
    decoded = protobuf.decode(pa.array([*(each.SerializeToString() for each in written), b"", b"\x08\x01\x12\x01\xff"]))
    assert decoded.rows.to_pylist()[:2] == [
        {"id": 0, "name": "", "state": "OPEN", "price": None},
        {"id": 3, "name": "caf\u00e9", "state": "DONE", "price": None},
    ]
    assert decoded.bad == [BadRecord(2, "required fields are missing: id"), BadRecord(3, "field name is not UTF-8")]
    numbers = _protobuf(item, "Item", pa.schema([("state", pa.int32())]))
    assert numbers.decode(pa.array([kind(id=1, state=1).SerializeToString()])).rows.to_pydict() == {"state": [1]}
    with pytest.raises(errors.PayloadError, match=r"row 0: required fields of message shop.Item have no value: id"):
        numbers.encode(pa.RecordBatch.from_pydict({"state": [1]}, numbers.schema))


def test_a_field_without_presence_is_null_or_its_default() -> None:
    file = _file("flat.proto")
    message = file.message_type.add(name="Flat")
    _add(message, "n", F.TYPE_INT32)
    _add(message, "x", F.TYPE_DOUBLE)
    _add(message, "t", F.TYPE_STRING)
    _add(message, "list", F.TYPE_STRING, label=F.LABEL_REPEATED)
    empty = pa.array([b""], pa.binary())
    assert _protobuf(_set(file), "Flat").decode(empty).rows.to_pylist() == [
        {"n": None, "x": None, "t": None, "list": []}
    ]
    zeros = _protobuf(_set(file), "Flat", emit_default_values="true")
    assert zeros.decode(empty).rows.to_pylist() == [{"n": 0, "x": 0.0, "t": "", "list": []}]


def test_two_formats_may_use_one_name_for_different_messages() -> None:
    made = []
    for kind in (F.TYPE_INT32, F.TYPE_STRING):
        file = _file("same.proto")
        _add(file.message_type.add(name="Same"), "a", kind)
        made.append(_protobuf(_set(file), "Same"))
    assert [str(each.schema.field("a").type) for each in made] == ["int32", "string"]
    assert [
        each.decode(pa.array([p])).rows.to_pydict() for each, p in zip(made, [b"\x08\x05", b"\x0a\x01x"], strict=True)
    ] == [
        {"a": [5]},
        {"a": ["x"]},
    ]


@pytest.mark.parametrize(
    "payload",
    [b"\x08", b"\xff" * 30, b"\x32\xff\xff\xff\xff\x0f", b"\x0b" * 500, b"\x00", b'{"id": 1}'],
    ids=["ends", "no tag", "a huge length", "deep groups", "field 0", "JSON"],
)
def test_wrong_bytes_are_a_bad_record(payload: bytes) -> None:
    protobuf = _protobuf(ORDER, "Order", pa.schema([("id", pa.int64())]))
    decoded = protobuf.decode(pa.array([b"\x08\x05", payload, None], pa.binary()))
    assert decoded.bad == [BadRecord(1, "the payload is no message shop.Order")]
    assert decoded.rows.to_pydict() == {"id": [5, None, None]}


def test_deeply_nested_messages_are_a_bad_record() -> None:
    payload = b"\x08\x05"
    for _ in range(5000):
        size, length = len(payload), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        payload = b"\x32" + bytes([*length, size]) + payload
    protobuf = _protobuf(ORDER, "Order", pa.schema([("id", pa.int64())]))
    assert protobuf.decode(pa.array([payload])).bad == [BadRecord(0, "the payload is no message shop.Order")]


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.field("idd", pa.int64()), r"column idd \(int64\): message shop.Order has no such field; did you mean id"),
        (pa.field("id", pa.string()), "column id is string, but the Protobuf type is uint64"),
        (pa.field("id", pa.list_(pa.int64())), r"column id is list.* uint64"),
        (pa.field("at", pa.int64()), "column at is int64, but the Protobuf type is message google.protobuf.Timestamp"),
        (pa.field("parent", pa.struct([("at", pa.date32())])), r"column parent.at is date32"),
        (pa.field("note", pa.binary()), "column note is binary, but the Protobuf type is string"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_column_that_the_message_cannot_give_is_refused(column: pa.Field, problem: str) -> None:
    with pytest.raises(errors.ConfigError, match=problem):
        _protobuf(ORDER, "Order", pa.schema([column]))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs options messageName and protobufDescriptorFile"),
        ({"messageName": "Order", "protobufDescriptor": "AA==", "protobufDescriptorFile": "x"}, "contradict"),
        ({"messageName": "Order", "protobufDescriptor": "?"}, "not base64"),
        ({"messageName": "Order", "protobufDescriptor": "/////w=="}, "no descriptor set"),
        ({"messageName": "Order", "protobufDescriptorFile": "/dev/zero"}, "not a regular file"),
        (_options(ORDER, "Ordre"), "no message 'Ordre'.*They have: shop.Order, google.protobuf.Timestamp"),
        (_options(_set(*_google()[:1], _file("a.proto")), "Order"), "They have: google.protobuf.Timestamp"),
        (_options(_set(FileDescriptorProto.FromString(FileDescriptorSet.FromString(ORDER).file[0].SerializeToString())),
                  "Order"), "protoc --include_imports adds imports"),
        (_options(ORDER, "Order", recursive_fields_max_depth="11"), "from 1 to 10"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_options_that_are_wrong_or_contradict_each_other_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(errors.ConfigError, match=problem):
        make_format("protobuf", pa.schema([("id", pa.int64())]), options)


def test_a_name_that_two_messages_have_must_be_full() -> None:
    both = []
    for package in ("a", "b"):
        file = _file(f"{package}.proto", package=package)
        _add(file.message_type.add(name="Same"), "x", F.TYPE_INT32)
        both.append(file)
    with pytest.raises(errors.ConfigError, match=r"may be a.Same or b.Same"):
        _protobuf(_set(*both), "Same")
    assert _protobuf(_set(*both), "b.Same").schema.names == ["x"]


def test_the_descriptors_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.desc"
    path.write_bytes(ORDER)
    columns = pa.schema([("id", pa.int64())])
    protobuf = make_format("protobuf", columns, {"protobufDescriptorFile": str(path), "messageName": "Order"})
    path.unlink()
    again = pickle.loads(pickle.dumps(protobuf))
    assert again.decode(pa.array([b"\x08\x05"])).rows.to_pydict() == {"id": [5]}
    assert len(repr(again)) < 200


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        (F.TYPE_UINT32, pa.array([1, -1], pa.int64()), "row 1, column a: "),
        (F.TYPE_ENUM, pa.array(["OPEN", "SHUT"]), "row 1, column a: 'SHUT' is no value of the enum"),
    ],
    ids=["a negative number", "an unknown name"],
)
def test_a_value_that_the_message_does_not_have_is_refused(kind: int, values: pa.Array, problem: str) -> None:
    file = _file("state.proto")
    file.enum_type.add(name="State").value.add(name="OPEN", number=0)
    _add(file.message_type.add(name="Item"), "a", kind, ".shop.State" if kind == F.TYPE_ENUM else "")
    made = _protobuf(_set(file), "Item", pa.schema([("a", values.type)]))
    with pytest.raises(errors.PayloadError, match=problem):
        made.encode(pa.RecordBatch.from_arrays([values], schema=made.schema))


def test_a_null_in_a_list_is_refused() -> None:
    file = _file("list.proto")
    _add(file.message_type.add(name="Item"), "a", F.TYPE_INT32, label=F.LABEL_REPEATED)
    made = _protobuf(_set(file), "Item")
    rows = pa.RecordBatch.from_pydict({"a": [[1], None, [2, None]]}, made.schema)
    with pytest.raises(errors.PayloadError, match="row 2, column a: a list or a map"):
        made.encode(rows)
    assert made.encode(rows.slice(0, 2)).to_pylist() == [b"\x0a\x01\x01", b""]


def test_without_its_package_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jetspark\[protobuf\]'"):
        _protobuf(ORDER, "Order", pa.schema([("id", pa.int64())]))
