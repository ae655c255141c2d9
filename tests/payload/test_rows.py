"""Rows of decoded fields next to the columns of the messages."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from jetspark import errors
from jetspark.payload import BadRecord, DecodeOptions, ParseMode, PayloadFormat, RowDecoder, make_format

TEXT = make_format("text", pa.schema([pa.field("line", pa.string())]))
MESSAGES = pa.record_batch(
    {
        "subject": ["a", "b", "c", "d"],
        "data": pa.array([b"one", b"\xff!", None, b"\xfe"], pa.binary()),
        "sequence": [7, 8, 9, 12],
    }
)
BAD = [BadRecord(1, "the payload is not UTF-8"), BadRecord(3, "the payload is not UTF-8")]


def decoder(decode: PayloadFormat | DecodeOptions, *columns: str) -> RowDecoder:
    schema = pa.schema([MESSAGES.schema.field(name) for name in columns])
    made: RowDecoder = pickle.loads(pickle.dumps(RowDecoder.for_columns(decode, schema, where="stream 'S'")))
    return made


def test_decoded_fields_take_the_place_of_the_payload_among_the_columns() -> None:
    rows = decoder(TEXT, "sequence", "data", "subject")
    assert rows.schema == pa.schema([("sequence", pa.int64()), ("line", pa.string()), ("subject", pa.string())])
    assert rows.message_columns == ("sequence", "subject", "data")
    decoded = rows.decode(MESSAGES)
    assert decoded.rows.schema == rows.schema
    assert decoded.rows.to_pydict() == {
        "sequence": [7, 8, 9, 12],
        "line": ["one", None, None, None],
        "subject": ["a", "b", "c", "d"],
    }
    assert decoded.bad == BAD


def test_rows_may_keep_the_payload_and_need_no_column_of_the_messages() -> None:
    kept = pa.schema([MESSAGES.schema.field("data")])
    both = RowDecoder(DecodeOptions(TEXT, metadata_prefix="_"), kept).decode(MESSAGES.slice(0, 2)).rows
    assert both.to_pydict() == {"_data": [b"one", b"\xff!"], "line": ["one", None]}
    alone = RowDecoder(DecodeOptions(TEXT), pa.schema([])).decode(MESSAGES.slice(0, 2)).rows
    assert alone.to_pydict() == {"line": ["one", None]}


def test_a_column_has_the_payloads_of_bad_records() -> None:
    options = DecodeOptions(TEXT, corrupt_record_column="_corrupt_record")
    rows = decoder(options, "data").decode(MESSAGES)
    assert rows.rows.to_pydict() == {
        "line": ["one", None, None, None],
        "_corrupt_record": [None, "\ufffd!", None, "\ufffd"],
    }
    exact = DecodeOptions(TEXT, corrupt_record_column=pa.field("bad", pa.binary()))
    assert decoder(exact, "data").decode(MESSAGES).rows["bad"].to_pylist() == [None, b"\xff!", None, b"\xfe"]
    assert decoder(exact, "data").decode(MESSAGES.slice(0, 1)).rows["bad"].to_pylist() == [None]


@pytest.mark.parametrize("mode", [ParseMode.DROPMALFORMED, "DropMalformed"])
def test_bad_records_may_be_left_out_and_are_counted(mode: ParseMode | str) -> None:
    decoded = decoder(DecodeOptions(TEXT, mode), "data", "sequence").decode(MESSAGES)
    assert decoded.rows.to_pydict() == {"line": ["one", None], "sequence": [7, 9]}
    assert decoded.bad == BAD


def test_a_bad_record_may_fail_the_read_and_the_error_names_the_message() -> None:
    rows = decoder(DecodeOptions(TEXT, "FAILFAST"), "data")
    with pytest.raises(
        errors.PayloadError, match=r"^stream 'S', sequence 8, subject b: the payload is not UTF-8; mode PERMISSIVE"
    ):
        rows.decode(MESSAGES)
    with pytest.raises(errors.PayloadError, match=r"^stream 'S', row 1: the payload"):
        rows.decode(MESSAGES.select(["data"]))
    assert rows.decode(MESSAGES.slice(0, 1)).rows.num_rows == 1


def test_a_clash_of_names_is_refused_and_the_error_says_how_to_rename() -> None:
    field = make_format("text", pa.schema([pa.field("subject", pa.string())]))
    with pytest.raises(errors.ConfigError, match=r"field 'subject', and so have the messages.*metadata_prefix=\"_\""):
        decoder(field, "subject", "data")
    assert decoder(DecodeOptions(field, metadata_prefix="_"), "subject", "data").schema.names == ["_subject", "subject"]
    with pytest.raises(errors.ConfigError, match="corrupt_record_column is 'subject', and another column"):
        decoder(DecodeOptions(TEXT, corrupt_record_column="subject"), "subject", "data")


def test_wrong_options_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match="mode must be one of PERMISSIVE, DROPMALFORMED, FAILFAST, not 'DROP'"):
        DecodeOptions(TEXT, "DROP")
    with pytest.raises(errors.ConfigError, match="string or binary"):
        DecodeOptions(TEXT, corrupt_record_column=pa.field("bad", pa.int64()))
    with pytest.raises(errors.ConfigError, match="decode needs the column data"):
        decoder(TEXT, "sequence")
    with pytest.raises(errors.ArgumentError, match="format takes a PayloadFormat, not str: 'json'"):
        DecodeOptions("json")  # type: ignore[arg-type]
