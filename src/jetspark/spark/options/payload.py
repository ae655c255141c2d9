"""The options of reads that decode payloads, and of writes that encode them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.formats import PayloadFormat, make_format
from jetspark.payload.modes import ParseMode
from jetspark.payload.options import FORMAT_OPTIONS, parse_format_options
from jetspark.spark.options import table
from jetspark.spark.options.option import Option
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PayloadOptions", "make_payload_options"]

_TIME_ZONE: Final = "timeZone"
_GENERAL: Final[tuple[Option[object], ...]] = (
    table.METADATA_PREFIX,
    table.MODE,
    table.CORRUPT_RECORD_COLUMN,
    table.SAMPLING_SIZE,
)


@dataclass(frozen=True, slots=True)
class PayloadOptions:
    """The checked options of payloads that are columns.

    Attributes
    ----------
    format
        Name of the format.
    prefix
        Prefix of the columns of messages.
    mode
        Treatment of payloads that cannot be decoded.
    corrupt_column
        Name of the column for their text, if the schema has it.
    sampling_size
        Number of messages from which fields are inferred.
    format_options
        Options of the format that were given, as text.
    """

    format: str
    prefix: str
    mode: ParseMode
    corrupt_column: str
    sampling_size: int
    format_options: Mapping[str, str]

    def message_column(self, column: str) -> str | None:
        """Return the name of the column of messages that a column has, if it is one; None without the prefix."""
        name, prefix = column.lower(), self.prefix.lower()
        return name.removeprefix(prefix) if name.startswith(prefix) else None

    def rename_hint(self, column: str, known: Collection[str]) -> str:
        """Return how a field of the payload with the name of a column of messages (one of `known`) can be used."""
        if self.message_column(column) not in known:
            return ""
        other = "msg_" if self.prefix == "_" else "_"
        renamed = ", ".join(f"{other}{each}" for each in list(known)[:2])
        return (
            f"; if {column} is a field of the payload, rename the columns of messages: "
            f'option("metadataPrefix", "{other}") makes them {renamed}, ...'
        )

    def make_format(self, schema: pa.Schema, *, to_encode: bool = False) -> PayloadFormat:
        """Return the format with these columns. Raises ConfigError for a column that it cannot give, or take."""
        return make_format(self.format, schema, self.format_options, to_encode=to_encode)

    def in_time_zone(self, planned: PayloadFormat, time_zone: str | None, *, to_encode: bool = False) -> PayloadFormat:
        """Return a format that `make_format` made, for a session with this time zone."""
        if time_zone is None or _TIME_ZONE in self.format_options or self.format not in _formats_with(_TIME_ZONE):
            return planned
        try:
            options = {**self.format_options, _TIME_ZONE: time_zone}
            return make_format(self.format, planned.schema, options, to_encode=to_encode)
        except ConfigError as error:
            raise ConfigError(f"the time zone of the session: {error}; set option {_TIME_ZONE}") from None


def make_payload_options(parsed: ParsedOptions) -> PayloadOptions | None:
    """Check the options of payloads; return None if payloads stay bytes.

    Raises
    ------
    ConfigError
        An option has no effect without `payloadFormat` or with this format, or has a wrong value; or the read or write
        is of objects.
    """
    name = parsed[table.PAYLOAD_FORMAT]
    given = {option.name: parsed[option] for option in table.OPTIONS_OF_FORMATS if option in parsed}
    if name is None:
        for option in _GENERAL:
            if option in parsed:
                raise ConfigError(
                    f"option {option.name} needs option {table.PAYLOAD_FORMAT.name}: the format of the payloads"
                )
        for each in given:
            raise ConfigError(
                f"option {each} needs option {table.PAYLOAD_FORMAT.name} = {' or '.join(_formats_with(each))}"
            )
        return None
    if table.OBJECTS in parsed:
        raise conflicting_options(table.OBJECTS, table.PAYLOAD_FORMAT)
    for each in given:
        formats = _formats_with(each)
        if name not in formats:
            raise ConfigError(
                f"options {each} and {table.PAYLOAD_FORMAT.name} = {name} contradict each other: {each} is an option "
                f"of {' and '.join(formats)}"
            )
    texts = {each: text for each, text in given.items() if text is not None}
    parse_format_options(name, texts)
    return PayloadOptions(
        format=name,
        prefix=parsed[table.METADATA_PREFIX],
        mode=_mode(parsed),
        corrupt_column=parsed[table.CORRUPT_RECORD_COLUMN],
        sampling_size=parsed[table.SAMPLING_SIZE],
        format_options=texts,
    )


def _mode(parsed: ParsedOptions) -> ParseMode:
    """Return the treatment of bad payloads: with dead letters they are left out, unless the options say otherwise."""
    if table.DEAD_LETTER_SUBJECT in parsed and table.MODE not in parsed:
        return ParseMode.DROPMALFORMED
    return ParseMode(parsed[table.MODE])


def _formats_with(name: str) -> list[str]:
    """Return the formats that have an option."""
    return list(dict.fromkeys(each for option in FORMAT_OPTIONS if option.name == name for each in option.formats))
