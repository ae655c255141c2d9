"""The options of the formats: one table, by which they are parsed, checked and documented.

Names and meanings are those of Spark's own options for the same format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from jetspark.jetstream.errors import ConfigError
from jetspark.wire.arguments import nearest_name

__all__ = [
    "FORMAT_OPTIONS",
    "FormatOption",
    "FormatOptions",
    "given_options",
    "parse_avro_encoding",
    "parse_boolean",
    "parse_count",
    "parse_depth",
    "parse_format_options",
    "parse_schema_id",
    "parse_time_zone",
]

T = TypeVar("T")


@dataclass(frozen=True)
class FormatOption:
    """One option of one format or of several.

    Attributes
    ----------
    name
        Name in camel case.
    formats
        Formats that it is for.
    kind
        Kind of its text, for the documentation.
    parse
        Parser of the text: returns the value, or raises ValueError.
    default
        Value if the option is not given.
    default_text
        The default, for the documentation.
    meaning
        Description, for the documentation.
    """

    name: str
    formats: tuple[str, ...]
    kind: str
    parse: Callable[[str], object]
    default: object
    default_text: str
    meaning: str


def parse_boolean(text: str) -> bool:
    """Parse true or false."""
    value = {"true": True, "false": False}.get(text.lower())
    if value is None:
        raise ValueError("it must be true or false")
    return value


def parse_count(text: str) -> int:
    """Parse a number from 1 to 2147483647."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:11]) <= 2**31 - 1 and len(text) <= 10):
        raise ValueError("it must be a number from 1 to 2147483647")
    return int(text)


def parse_time_zone(text: str) -> str:
    """Parse the name of a time zone, or an offset such as +01:00."""
    from jetspark.payload.time_zones import time_zone

    time_zone(text)
    return text


def parse_avro_encoding(text: str) -> str:
    """Parse what stands before an Avro record."""
    if text not in {"binary", "single-object", "confluent"}:
        raise ValueError("it must be binary, single-object or confluent")
    return text


def parse_depth(text: str) -> int:
    """Parse a depth of messages: a number from 1 to 10."""
    if text not in {str(depth) for depth in range(1, 11)}:
        raise ValueError("it must be a number from 1 to 10")
    return int(text)


def parse_schema_id(text: str) -> int:
    """Parse the id of a schema in a registry: a number of 32 bits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 1 << 32):
        raise ValueError("it must be a number from 0 to 4294967295")
    return int(text)


def _switch(name: str, formats: tuple[str, ...], default: bool, meaning: str) -> FormatOption:
    return FormatOption(name, formats, "true or false", parse_boolean, default, str(default).lower(), meaning)


def _optional_switch(name: str, formats: tuple[str, ...], meaning: str) -> FormatOption:
    def parse(text: str) -> str:
        return str(parse_boolean(text)).lower()

    return FormatOption(name, formats, "true or false", parse, "", "false in reads, true in writes", meaning)


FORMAT_OPTIONS: Final[tuple[FormatOption, ...]] = (
    FormatOption(
        "timeZone", ("json", "csv"), "time zone", parse_time_zone, "UTC", "UTC; in Spark: the time zone of the session",
        "The time zone of times whose text has none.",
    ),
    FormatOption(
        "timestampFormat", ("json", "csv"), "pattern", str, "", "the formats of Spark's cast",
        "The pattern of timestamps with time zone.",
    ),
    FormatOption(
        "timestampNTZFormat", ("json", "csv"), "pattern", str, "", "the formats of Spark's cast",
        "The pattern of timestamps without time zone.",
    ),
    FormatOption(
        "dateFormat", ("json", "csv"), "pattern", str, "", "the formats of Spark's cast",
        "The pattern of dates.",
    ),
    FormatOption(
        "enableDateTimeParsingFallback", ("json", "csv"), "true or false",
        lambda text: str(parse_boolean(text)).lower(), "", "true without a pattern, false with one",
        "Whether times and dates that do not fit the pattern are read in the formats of old versions of Spark.",
    ),
    _switch("allowComments", ("json",), False, "Whether comments as in Java and C++ are ignored."),
    _switch("allowSingleQuotes", ("json",), True, "Whether single quotes are quotes, too."),
    _switch("allowUnquotedFieldNames", ("json",), False, "Whether names of fields need no quotes."),
    _switch("allowNumericLeadingZeros", ("json",), False, "Whether numbers may start with zeros, as 007."),
    _switch("allowNonNumericNumbers", ("json",), True, "Whether NaN, Infinity, -Infinity and +INF are numbers."),
    _switch(
        "allowBackslashEscapingAnyCharacter", ("json",), False,
        "Whether a backslash may stand before every character.",
    ),
    _switch("allowUnquotedControlChars", ("json",), False, "Whether text may contain control characters, as tabs."),
    _switch("ignoreNullFields", ("json",), True, "Whether a write leaves out the fields that are null."),
    _switch("primitivesAsString", ("json",), False, "Without a schema: whether numbers, true and false become text."),
    _switch("prefersDecimal", ("json",), False, "Without a schema: whether fractions become decimals, not doubles."),
    _switch("inferTimestamp", ("json",), False, "Without a schema: whether text may become a timestamp."),
    _switch("dropFieldIfAllNull", ("json",), False, "Without a schema: whether fields with only null are left out."),
    FormatOption(
        "maxNestingDepth", ("json",), "number", parse_count, 1000, "1000", "The deepest nesting of a payload.",
    ),
    FormatOption(
        "maxNumLen", ("json",), "number", parse_count, 1000, "1000", "The longest number, in characters.",
    ),
    FormatOption(
        "maxStringLen", ("json",), "number", parse_count, 20_000_000, "20000000", "The longest text, in characters.",
    ),
    FormatOption("sep", ("csv",), "text", str, "", "a comma", "The text between the fields of a record."),
    FormatOption("delimiter", ("csv",), "text", str, "", "a comma", "Another name of sep."),
    FormatOption("quote", ("csv",), "character", str, '"', '"', "The quote of values; empty for none."),
    FormatOption("escape", ("csv",), "character", str, "\\", "\\", "The character before a quote within a value."),
    FormatOption(
        "charToEscapeQuoteEscaping", ("csv",), "character", str, "", "that of escape, if it is not the quote",
        "The character before an escape within a value in quotes.",
    ),
    FormatOption("comment", ("csv",), "character", str, "", "none", "Records that begin with it have no fields."),
    FormatOption("nullValue", ("csv",), "text", str, "", "empty", "The text of null."),
    FormatOption(
        "emptyValue", ("csv",), "text", str, "\0", "empty in reads, two quotes in writes",
        "The text of an empty string.",
    ),
    FormatOption("nanValue", ("csv",), "text", str, "NaN", "NaN", "The text of the number NaN, in reads."),
    FormatOption("positiveInf", ("csv",), "text", str, "Inf", "Inf", "The text of infinity, in reads."),
    FormatOption("negativeInf", ("csv",), "text", str, "-Inf", "-Inf", "The text of negative infinity, in reads."),
    _optional_switch("ignoreLeadingWhiteSpace", ("csv",), "Whether values lose the spaces at their start."),
    _optional_switch("ignoreTrailingWhiteSpace", ("csv",), "Whether values lose the spaces at their end."),
    _switch("quoteAll", ("csv",), False, "Whether a write puts all values into quotes."),
    _switch("escapeQuotes", ("csv",), True, "Whether a write puts values that have quotes into quotes."),
    FormatOption(
        "maxColumns", ("csv",), "number", parse_count, 20480, "20480", "The most fields of a record.",
    ),
    FormatOption(
        "avroSchema", ("avro",), "JSON", str, "", "none",
        "The schema of the payloads: the one that their writer had. Its top level is a record, whose fields are "
        "columns.",
    ),
    FormatOption(
        "avroSchemaFile", ("avro",), "path", str, "", "none",
        "A file with this schema. It is read once, where the read or write is planned.",
    ),
    FormatOption(
        "avroEncoding", ("avro",), "`binary`, `single-object` or `confluent`", parse_avro_encoding, "binary",
        "`binary`",
        "The encoding of a record: `binary` is the record alone, `single-object` has the header of Avro with the "
        "fingerprint of the schema, `confluent` has a zero byte and the id of the schema in a registry, 4 bytes.",
    ),
    FormatOption(
        "avroSchemaId", ("avro",), "number", parse_schema_id, -1, "none; a read then takes all ids",
        "The id of `avroSchema`, for `confluent`.",
    ),
    FormatOption(
        "avroSchemas", ("avro",), "JSON", str, "", "none",
        "Further schemas that payloads may have. For `confluent`: an object of ids and schemas. For `single-object`: "
        "an array of schemas. A column that one of them does not have is null.",
    ),
    FormatOption(
        "messageName", ("protobuf",), "name", str, "", "none; needed",
        "The name of the messages, with its package if two messages have this name.",
    ),
    FormatOption(
        "protobufDescriptorFile", ("protobuf",), "path", str, "", "none",
        "A file with the descriptors of the message, as `protoc --include_imports --descriptor_set_out` writes it. It "
        "is read once, where the read or write is planned.",
    ),
    FormatOption(
        "protobufDescriptor", ("protobuf",), "base64", str, "", "none", "The content of such a file.",
    ),
    _switch(
        "emit.default.values", ("protobuf",), False,
        "Whether a field that has no value and no presence is its default; otherwise it is null.",
    ),
    _switch("enums.as.ints", ("protobuf",), False, "Whether enums are numbers, if the fields are inferred."),
    _switch(
        "upcast.unsigned.ints", ("protobuf",), False,
        "Whether unsigned numbers get a wider type, if the fields are inferred. Otherwise large ones are negative.",
    ),
    _switch(
        "unwrap.primitive.wrapper.types", ("protobuf",), False,
        "Whether messages such as Int32Value are their values, if the fields are inferred.",
    ),
    FormatOption(
        "recursive.fields.max.depth", ("protobuf",), "number", parse_depth, 0, "none; such a message is refused",
        "How often a message may be inside of itself, if the fields are inferred: 1 to 10.",
    ),
)  # fmt: skip
"""All options of formats, in the order of the documentation."""


class FormatOptions:
    """The values of the options of one format: those that were given, and the defaults of the others."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    def get(self, name: str, kind: type[T]) -> T:
        """Return the value of an option, which has the type `kind`."""
        value = self._values[name]
        assert isinstance(value, kind)
        return value


def given_options(**values: object) -> dict[str, str]:
    """Return the options that are not None, as text."""
    texts = {name: str(value) for name, value in values.items() if value is not None}
    return {name: text.lower() if isinstance(values[name], bool) else text for name, text in texts.items()}


def parse_format_options(name: str, options: Mapping[str, str]) -> FormatOptions:
    """Parse options of a format. Raises ConfigError for an unknown option or a wrong value."""
    known = {option.name.lower(): option for option in FORMAT_OPTIONS if name in option.formats}
    values = {option.name: option.default for option in known.values()}
    for given, text in options.items():
        option = known.get(given.lower())
        if option is None:
            nearest = nearest_name(given, {each.name: each for each in known.values()})
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise ConfigError(f"payload format {name} has no option {given!r}{hint}")
        try:
            values[option.name] = option.parse(text)
        except ValueError as error:
            raise ConfigError(f"option {option.name} is {text[:200]!r}: {error}") from None
    return FormatOptions(values)
