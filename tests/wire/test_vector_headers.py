"""Header blocks of many messages at once, compared with the scalar parser and encoder, row by row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.test_headers import keys, pairs, values

from jetspark.wire import headers as scalar
from jetspark.wire.errors import BadHeadersError
from jetspark.wire.vector import headers as vector
from jetspark.wire.vector.headers import HEADERS_TYPE, decode_headers, encode_headers

steady = settings(derandomize=True, max_examples=70)

Row = list[tuple[str, list[str]]]
STRING_MAP = pa.map_(pa.string(), pa.string())
LARGE_MAP = pa.map_(pa.large_string(), pa.large_list(pa.large_string()))


# -- reading -------------------------------------------------------------------------------------------------------


def read_scalar(block: bytes) -> Row:
    """Return the rows as Arrow can hold them: bytes that are not UTF-8 become U+FFFD, so keys may become equal."""
    row: dict[str, list[str]] = {}
    for pair in scalar.parse_header_block(block).items():
        key, value = (text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in pair)
        row.setdefault(key, []).append(value)
    return list(row.items())


def assert_agree(blocks: list[bytes | None]) -> None:
    column = pa.array([block or b"" for block in blocks], pa.binary())
    present = np.array([block is not None for block in blocks], np.bool_)
    found = decode_headers(column, present)
    found.validate(full=True)
    assert found.type == HEADERS_TYPE
    assert found.to_pylist() == [None if block is None else read_scalar(block) for block in blocks]


good_lines = st.one_of(
    st.builds(lambda key, value: f"{key}: {value}\r\n".encode(), st.one_of(st.sampled_from("Aab"), keys), values),
    st.sampled_from([b"A: 1\r\n", b"A:2\r\n", b"a: 1\r\n", b"B:\r\n", b"B: \t \r\n", b"A:  x y\t\r\n", b"B: c: d\r\n"]),
)
odd_lines = st.one_of(
    good_lines,
    st.sampled_from(
        [
            b"nonsense\r\n",
            b": 1\r\n",
            b":\r\n",
            b"\r\n",
            b" \r\n",
            b"A b: 1\r\n",
            b" A: 1\r\n",
            b"A: x\ry\r\n",
            b"A: x\r\r\n",
        ]
    ),
)
wild_lines = st.one_of(
    odd_lines,
    st.sampled_from(
        [
            b"A: x\ny\r\n",
            b"\n",
            b"A: 1\n",
            b"A: 1",
            b"A:      x      \r\n",
            b"\xff: \xfe\r\n",
            b"\xfe: \xed\xa0\x80\r\n",
        ]
    ),
    st.binary(max_size=6),
)
heads = st.sampled_from([b"NATS/1.0\r\n", b"NATS/1.0\r\n", b"NATS/1.0 100 A: b\r\n", b"x: y\r\n"])


def blocks(lines: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[bytes | None]]:
    block = st.builds(lambda head, body: head + b"".join(body) + b"\r\n", heads, st.lists(lines, max_size=5))
    return st.lists(st.one_of(block, block, st.none()), max_size=6)


@steady
@given(blocks(good_lines))
def test_valid_blocks_are_read_like_by_the_scalar_parser(rows: list[bytes | None]) -> None:
    assert_agree(rows)


@steady
@given(blocks(odd_lines))
def test_malformed_lines_are_skipped_like_by_the_scalar_parser(rows: list[bytes | None]) -> None:
    assert_agree(rows)


@steady
@given(blocks(wild_lines))
def test_any_block_is_read_like_by_the_scalar_parser(rows: list[bytes | None]) -> None:
    assert_agree(rows)


@steady
@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=5))
def test_unstructured_blocks_are_read_like_by_the_scalar_parser(rows: list[bytes | None]) -> None:
    assert_agree(rows)


@pytest.mark.parametrize(
    "lines",
    [
        b"A:" + b" " * 9 + b"x" + b"\t" * 9 + b"\r\n",
        b"A:" + b" " * 9 + b"\r\n",
        b"A: x\ny\r\n",
        b"A: x\nB: y\r\n",
        b"A: x\n",
        b"A: x",
        b"\xff: x\r\n\xfe: y\r\n",
        b"A: \xed\xa0\x80\r\n",
        b"A: x\ry\r\r\n",
        b": x\r\nA\r\nB:\r\n",
    ],
)
def test_one_unusual_block_among_usual_ones_is_read(lines: bytes) -> None:
    usual = b"NATS/1.0\r\nA: 1\r\n\r\n"
    for end in (b"", b"\r\n"):
        assert_agree([usual, b"NATS/1.0\r\n" + lines + end, None, usual])


@steady
@given(blocks(odd_lines), st.integers(0, 3), st.integers(0, 6))
def test_a_slice_of_blocks_is_read(rows: list[bytes | None], start: int, length: int) -> None:
    column = pa.array([row or b"" for row in rows], pa.binary()).slice(start, length)
    part = rows[start : start + length]
    found = decode_headers(column, np.array([row is not None for row in part], np.bool_))
    assert found.to_pylist() == [None if row is None else read_scalar(row) for row in part]


def test_usual_blocks_are_read_without_the_scalar_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(block: bytes) -> scalar.Headers:
        raise AssertionError(block)

    rows: list[bytes | None] = [
        b"NATS/1.0\r\nA: 1\r\nB:2\r\nA: \t3 \r\n\r\n",
        None,
        b"NATS/1.0 503\r\n\r\n",
        "NATS/1.0\r\nname: J\u00fcrgen \u20ac\U0001f600\r\n\r\n".encode(),
    ]
    column = pa.array([row or b"" for row in rows], pa.binary())
    monkeypatch.setattr(vector, "parse_header_block", refuse)
    found = decode_headers(column, np.array([row is not None for row in rows], np.bool_)).to_pylist()
    assert found == [[("A", ["1", "3"]), ("B", ["2"])], None, [], [("name", ["J\u00fcrgen \u20ac\U0001f600"])]]


def test_keys_that_are_repeated_in_many_rows_keep_their_order() -> None:
    rows: list[bytes | None] = [
        b"NATS/1.0\r\n" + b"".join(b"%c: %d\r\n" % (97 + (row * step) % 5, step) for step in range(row % 12)) + b"\r\n"
        for row in range(2000)
    ]
    assert_agree(rows)


# -- writing -------------------------------------------------------------------------------------------------------


def flat(row: Row | None) -> list[tuple[str, str]]:
    return [(key, value) for key, items in row or [] for value in items]


def written(row: Row | None) -> bytes | None:
    return scalar.encode_header_block(flat(row)) if flat(row) else None


rows_of_lists = st.lists(
    st.one_of(st.none(), st.lists(st.tuples(keys, st.lists(values, max_size=3)), max_size=3)), max_size=6
)
slices = st.tuples(st.integers(0, 3), st.integers(0, 6)).map(lambda pair: slice(pair[0], pair[0] + pair[1]))


@steady
@given(rows_of_lists, slices, st.sampled_from([HEADERS_TYPE, LARGE_MAP]))
def test_maps_of_lists_are_encoded_like_by_the_scalar_encoder(
    rows: list[Row | None], part: slice, kind: pa.DataType
) -> None:
    made = encode_headers(pa.array(rows, kind)[part])
    assert made is not None
    assert made.to_pylist() == [written(row) for row in rows[part]]
    assert made.type == pa.binary()


@steady
@given(st.lists(st.one_of(st.none(), pairs), max_size=6), slices)
def test_maps_of_strings_are_encoded_like_by_the_scalar_encoder(
    rows: list[list[tuple[str, str]] | None], part: slice
) -> None:
    made = encode_headers(pa.array(rows, STRING_MAP)[part])
    assert made is not None
    assert made.to_pylist() == [scalar.encode_header_block(row) if row else None for row in rows[part]]


@steady
@given(rows_of_lists)
def test_written_headers_are_read_back(rows: list[Row | None]) -> None:
    made = encode_headers(pa.array(rows, HEADERS_TYPE))
    assert made is not None
    present = np.asarray(made.is_valid())
    found = decode_headers(made.fill_null(b""), present)
    expected = [
        scalar.Headers((key, value.strip(" \t")) for key, value in flat(row)).to_dict() if flat(row) else None
        for row in rows
    ]
    assert [row if row is None else dict(row) for row in found.to_pylist()] == expected


def test_no_columns_give_no_blocks_and_an_empty_column_gives_an_empty_one() -> None:
    assert encode_headers(None) is None
    for kind in (HEADERS_TYPE, STRING_MAP, pa.map_(pa.string(), pa.null())):
        made = encode_headers(pa.array([], kind))
        assert made is not None
        assert made.to_pylist() == []


def test_rows_without_values_have_no_block() -> None:
    made = encode_headers(pa.array([None, [], [("A", [])], [("A", ["1"])]], HEADERS_TYPE))
    assert made is not None
    assert made.to_pylist() == [None, None, None, b"NATS/1.0\r\nA: 1\r\n\r\n"]
    made = encode_headers(pa.array([None, {}], pa.map_(pa.string(), pa.null())))
    assert made is not None
    assert made.to_pylist() == [None, None]


@pytest.mark.parametrize("value", ["2", "x\r\ny"])
def test_entries_hidden_by_a_null_row_are_neither_sent_nor_refused(value: str) -> None:
    hidden = pa.MapArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()),
        pa.array(["A", "B", "C"]),
        pa.array(["1", value, "3"]),
        mask=pa.array([False, True, False]),
    )
    for column, expected in ((hidden, [b"A: 1", None, b"C: 3"]), (hidden.slice(1), [None, b"C: 3"])):
        made = encode_headers(column)
        assert made is not None
        assert made.to_pylist() == [line and b"NATS/1.0\r\n" + line + b"\r\n\r\n" for line in expected]


def test_message_ids_have_their_own_header() -> None:
    ids = pa.array(["one", None, "three", None])
    made = encode_headers(None, ids)
    assert made is not None
    one, three = (scalar.encode_header_block({"Nats-Msg-Id": name}) for name in ("one", "three"))
    assert made.to_pylist() == [one, None, three, None]
    made = encode_headers(pa.array([None, [("A", "1")], [("A", "1")], None], STRING_MAP), ids)
    assert made is not None
    both = scalar.encode_header_block([("A", "1"), ("Nats-Msg-Id", "three")])
    assert made.to_pylist() == [one, scalar.encode_header_block({"A": "1"}), both, None]


# -- refusals ------------------------------------------------------------------------------------------------------


@steady
@given(rows_of_lists, st.integers(0, 6), st.sampled_from(["a b", "", "a:", "\u00e9", "a\n"]), st.integers(0, 3))
def test_an_invalid_key_is_refused_with_its_row(rows: list[Row | None], at: int, key: str, start: int) -> None:
    rows.insert(at, [("fine", ["1"]), (key, ["2"])])
    row = min(at, len(rows) - 1)
    start = min(start, row)
    with pytest.raises(BadHeadersError):
        written(rows[row])
    with pytest.raises(BadHeadersError) as caught:
        encode_headers(pa.array(rows, HEADERS_TYPE).slice(start))
    assert caught.value.row == row - start
    assert f"row {row - start}, header {key!r}" in str(caught.value)


@steady
@given(rows_of_lists, st.integers(0, 6), st.sampled_from(["x\r\ny", "\n", "x\r"]))
def test_an_invalid_value_is_refused_with_its_row_and_not_shown(rows: list[Row | None], at: int, value: str) -> None:
    rows.insert(at, [("fine", ["1"]), ("token", ["2", value])])
    row = min(at, len(rows) - 1)
    with pytest.raises(BadHeadersError) as caught:
        encode_headers(pa.array(rows, HEADERS_TYPE))
    assert caught.value.row == row
    assert str(caught.value) == f"row {row}, header 'token': CR and LF are not allowed in a value"


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (pa.array([[("A", "1")], None, [("A", "1"), ("B", None)]], STRING_MAP), 2),
        (pa.array([[], [("B", ["1", None])]], HEADERS_TYPE), 1),
        (pa.array([[("A", ["1"]), ("B", None)]], HEADERS_TYPE), 0),
        (pa.array([None, [("B", None)]], pa.map_(pa.string(), pa.null())), 1),
    ],
)
def test_a_null_value_is_refused_with_its_row(column: pa.Array, row: int) -> None:
    with pytest.raises(BadHeadersError, match=r"header 'B': .*null") as caught:
        encode_headers(column)
    assert caught.value.row == row


def test_an_invalid_message_id_is_refused_with_its_row() -> None:
    with pytest.raises(BadHeadersError, match="row 2, header 'Nats-Msg-Id'") as caught:
        encode_headers(None, pa.array(["one", None, "x\ny"]))
    assert caught.value.row == 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.list_(pa.string()),
        pa.map_(pa.string(), pa.int64()),
        pa.map_(pa.string(), pa.binary()),
        pa.map_(pa.int64(), pa.string()),
        pa.map_(pa.string(), pa.list_(pa.int64())),
    ],
)
def test_a_column_of_another_type_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(BadHeadersError, match="must be a map of strings"):
        encode_headers(pa.array([None], kind))


def test_the_column_has_the_arrow_type_that_the_documentation_names() -> None:
    assert str(HEADERS_TYPE) == "map<string, list<element: string>>"
