"""Functions that return a format of payloads, with its options as keywords.

Made by `tools/make_formats.py` from `jetspark.payload.options`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.payload.formats import PayloadFormat, make_format
from jetspark.payload.options import given_options
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["avro_format", "csv_format", "json_format", "protobuf_format", "text_format"]


@checks_arguments()
def avro_format(
    schema: pa.Schema,
    *,
    avro_schema: str | None = None,
    avro_schema_file: str | None = None,
    avro_encoding: str | None = None,
    avro_schema_id: int | None = None,
    avro_schemas: str | None = None,
) -> PayloadFormat:
    """Return the format `avro`. An option that is None has its default.

    Parameters
    ----------
    schema
        Columns to decode or to encode.
    avro_schema
        The schema of the payloads: the one that their writer had. Its top level is a record, whose fields are
        columns. Default: none.
    avro_schema_file
        A file with this schema. It is read once, where the read or write is planned. Default: none.
    avro_encoding
        The encoding of a record: `binary` is the record alone, `single-object` has the header of Avro with the
        fingerprint of the schema, `confluent` has a zero byte and the id of the schema in a registry, 4 bytes.
        Default: `binary`.
    avro_schema_id
        The id of `avroSchema`, for `confluent`. Default: none; a read then takes all ids.
    avro_schemas
        Further schemas that payloads may have. For `confluent`: an object of ids and schemas. For `single-
        object`: an array of schemas. A column that one of them does not have is null. Default: none.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format(
        "avro",
        schema,
        given_options(
            avroSchema=avro_schema,
            avroSchemaFile=avro_schema_file,
            avroEncoding=avro_encoding,
            avroSchemaId=avro_schema_id,
            avroSchemas=avro_schemas,
        ),
    )


@checks_arguments()
def json_format(
    schema: pa.Schema,
    *,
    time_zone: str | None = None,
    timestamp_format: str | None = None,
    timestamp_ntz_format: str | None = None,
    date_format: str | None = None,
    enable_date_time_parsing_fallback: bool | None = None,
    allow_comments: bool | None = None,
    allow_single_quotes: bool | None = None,
    allow_unquoted_field_names: bool | None = None,
    allow_numeric_leading_zeros: bool | None = None,
    allow_non_numeric_numbers: bool | None = None,
    allow_backslash_escaping_any_character: bool | None = None,
    allow_unquoted_control_chars: bool | None = None,
    ignore_null_fields: bool | None = None,
    primitives_as_string: bool | None = None,
    prefers_decimal: bool | None = None,
    infer_timestamp: bool | None = None,
    drop_field_if_all_null: bool | None = None,
    max_nesting_depth: int | None = None,
    max_num_len: int | None = None,
    max_string_len: int | None = None,
) -> PayloadFormat:
    """Return the format `json`. An option that is None has its default.

    Parameters
    ----------
    schema
        Columns to decode or to encode.
    time_zone
        The time zone of times whose text has none. Default: UTC; in Spark: the time zone of the session.
    timestamp_format
        The pattern of timestamps with time zone. Default: the formats of Spark's cast.
    timestamp_ntz_format
        The pattern of timestamps without time zone. Default: the formats of Spark's cast.
    date_format
        The pattern of dates. Default: the formats of Spark's cast.
    enable_date_time_parsing_fallback
        Whether times and dates that do not fit the pattern are read in the formats of old versions of Spark.
        Default: true without a pattern, false with one.
    allow_comments
        Whether comments as in Java and C++ are ignored. Default: false.
    allow_single_quotes
        Whether single quotes are quotes, too. Default: true.
    allow_unquoted_field_names
        Whether names of fields need no quotes. Default: false.
    allow_numeric_leading_zeros
        Whether numbers may start with zeros, as 007. Default: false.
    allow_non_numeric_numbers
        Whether NaN, Infinity, -Infinity and +INF are numbers. Default: true.
    allow_backslash_escaping_any_character
        Whether a backslash may stand before every character. Default: false.
    allow_unquoted_control_chars
        Whether text may contain control characters, as tabs. Default: false.
    ignore_null_fields
        Whether a write leaves out the fields that are null. Default: true.
    primitives_as_string
        Without a schema: whether numbers, true and false become text. Default: false.
    prefers_decimal
        Without a schema: whether fractions become decimals, not doubles. Default: false.
    infer_timestamp
        Without a schema: whether text may become a timestamp. Default: false.
    drop_field_if_all_null
        Without a schema: whether fields with only null are left out. Default: false.
    max_nesting_depth
        The deepest nesting of a payload. Default: 1000.
    max_num_len
        The longest number, in characters. Default: 1000.
    max_string_len
        The longest text, in characters. Default: 20000000.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format(
        "json",
        schema,
        given_options(
            timeZone=time_zone,
            timestampFormat=timestamp_format,
            timestampNTZFormat=timestamp_ntz_format,
            dateFormat=date_format,
            enableDateTimeParsingFallback=enable_date_time_parsing_fallback,
            allowComments=allow_comments,
            allowSingleQuotes=allow_single_quotes,
            allowUnquotedFieldNames=allow_unquoted_field_names,
            allowNumericLeadingZeros=allow_numeric_leading_zeros,
            allowNonNumericNumbers=allow_non_numeric_numbers,
            allowBackslashEscapingAnyCharacter=allow_backslash_escaping_any_character,
            allowUnquotedControlChars=allow_unquoted_control_chars,
            ignoreNullFields=ignore_null_fields,
            primitivesAsString=primitives_as_string,
            prefersDecimal=prefers_decimal,
            inferTimestamp=infer_timestamp,
            dropFieldIfAllNull=drop_field_if_all_null,
            maxNestingDepth=max_nesting_depth,
            maxNumLen=max_num_len,
            maxStringLen=max_string_len,
        ),
    )


@checks_arguments()
def csv_format(
    schema: pa.Schema,
    *,
    time_zone: str | None = None,
    timestamp_format: str | None = None,
    timestamp_ntz_format: str | None = None,
    date_format: str | None = None,
    enable_date_time_parsing_fallback: bool | None = None,
    sep: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    escape: str | None = None,
    char_to_escape_quote_escaping: str | None = None,
    comment: str | None = None,
    null_value: str | None = None,
    empty_value: str | None = None,
    nan_value: str | None = None,
    positive_inf: str | None = None,
    negative_inf: str | None = None,
    ignore_leading_white_space: bool | None = None,
    ignore_trailing_white_space: bool | None = None,
    quote_all: bool | None = None,
    escape_quotes: bool | None = None,
    max_columns: int | None = None,
) -> PayloadFormat:
    """Return the format `csv`. An option that is None has its default.

    Parameters
    ----------
    schema
        Columns to decode or to encode.
    time_zone
        The time zone of times whose text has none. Default: UTC; in Spark: the time zone of the session.
    timestamp_format
        The pattern of timestamps with time zone. Default: the formats of Spark's cast.
    timestamp_ntz_format
        The pattern of timestamps without time zone. Default: the formats of Spark's cast.
    date_format
        The pattern of dates. Default: the formats of Spark's cast.
    enable_date_time_parsing_fallback
        Whether times and dates that do not fit the pattern are read in the formats of old versions of Spark.
        Default: true without a pattern, false with one.
    sep
        The text between the fields of a record. Default: a comma.
    delimiter
        Another name of sep. Default: a comma.
    quote
        The quote of values; empty for none. Default: ".
    escape
        The character before a quote within a value. Default: a backslash.
    char_to_escape_quote_escaping
        The character before an escape within a value in quotes. Default: that of escape, if it is not the
        quote.
    comment
        Records that begin with it have no fields. Default: none.
    null_value
        The text of null. Default: empty.
    empty_value
        The text of an empty string. Default: empty in reads, two quotes in writes.
    nan_value
        The text of the number NaN, in reads. Default: NaN.
    positive_inf
        The text of infinity, in reads. Default: Inf.
    negative_inf
        The text of negative infinity, in reads. Default: -Inf.
    ignore_leading_white_space
        Whether values lose the spaces at their start. Default: false in reads, true in writes.
    ignore_trailing_white_space
        Whether values lose the spaces at their end. Default: false in reads, true in writes.
    quote_all
        Whether a write puts all values into quotes. Default: false.
    escape_quotes
        Whether a write puts values that have quotes into quotes. Default: true.
    max_columns
        The most fields of a record. Default: 20480.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format(
        "csv",
        schema,
        given_options(
            timeZone=time_zone,
            timestampFormat=timestamp_format,
            timestampNTZFormat=timestamp_ntz_format,
            dateFormat=date_format,
            enableDateTimeParsingFallback=enable_date_time_parsing_fallback,
            sep=sep,
            delimiter=delimiter,
            quote=quote,
            escape=escape,
            charToEscapeQuoteEscaping=char_to_escape_quote_escaping,
            comment=comment,
            nullValue=null_value,
            emptyValue=empty_value,
            nanValue=nan_value,
            positiveInf=positive_inf,
            negativeInf=negative_inf,
            ignoreLeadingWhiteSpace=ignore_leading_white_space,
            ignoreTrailingWhiteSpace=ignore_trailing_white_space,
            quoteAll=quote_all,
            escapeQuotes=escape_quotes,
            maxColumns=max_columns,
        ),
    )


@checks_arguments()
def protobuf_format(
    schema: pa.Schema,
    *,
    message_name: str | None = None,
    protobuf_descriptor_file: str | None = None,
    protobuf_descriptor: str | None = None,
    emit_default_values: bool | None = None,
    enums_as_ints: bool | None = None,
    upcast_unsigned_ints: bool | None = None,
    unwrap_primitive_wrapper_types: bool | None = None,
    recursive_fields_max_depth: int | None = None,
) -> PayloadFormat:
    """Return the format `protobuf`. An option that is None has its default.

    Parameters
    ----------
    schema
        Columns to decode or to encode.
    message_name
        The name of the messages, with its package if two messages have this name. Default: none; needed.
    protobuf_descriptor_file
        A file with the descriptors of the message, as `protoc --include_imports --descriptor_set_out` writes
        it. It is read once, where the read or write is planned. Default: none.
    protobuf_descriptor
        The content of such a file. Default: none.
    emit_default_values
        Whether a field that has no value and no presence is its default; otherwise it is null. Default: false.
    enums_as_ints
        Whether enums are numbers, if the fields are inferred. Default: false.
    upcast_unsigned_ints
        Whether unsigned numbers get a wider type, if the fields are inferred. Otherwise large ones are
        negative. Default: false.
    unwrap_primitive_wrapper_types
        Whether messages such as Int32Value are their values, if the fields are inferred. Default: false.
    recursive_fields_max_depth
        How often a message may be inside of itself, if the fields are inferred: 1 to 10. Default: none; such a
        message is refused.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format(
        "protobuf",
        schema,
        given_options(
            messageName=message_name,
            protobufDescriptorFile=protobuf_descriptor_file,
            protobufDescriptor=protobuf_descriptor,
            **{"emit.default.values": emit_default_values},
            **{"enums.as.ints": enums_as_ints},
            **{"upcast.unsigned.ints": upcast_unsigned_ints},
            **{"unwrap.primitive.wrapper.types": unwrap_primitive_wrapper_types},
            **{"recursive.fields.max.depth": recursive_fields_max_depth},
        ),
    )


@checks_arguments()
def text_format(schema: pa.Schema) -> PayloadFormat:
    """Return the format `text`.

    Parameters
    ----------
    schema
        Columns to decode or to encode.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format("text", schema)
