"""Options of the payloads: their format, and the columns that are decoded from them or encoded into them."""

from __future__ import annotations

from typing import Final

from jetspark.payload.formats import FORMATS
from jetspark.payload.modes import ParseMode
from jetspark.payload.options import FORMAT_OPTIONS
from jetspark.spark.options.option import NONE, Option, Use
from jetspark.spark.options.values import one_of, parse_count, parse_text

__all__ = [
    "CORRUPT_RECORD_COLUMN",
    "METADATA_PREFIX",
    "MODE",
    "OPTIONS_OF_FORMATS",
    "PAYLOAD_FORMAT",
    "SAMPLING_SIZE",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

PAYLOAD_FORMAT: Final = Option[str | None](
    "payloadFormat", ", ".join(f"`{name}`" for name in FORMATS), one_of(*FORMATS), None, NONE,
    "Format of the payloads. Read: columns of the schema that are no columns of messages are decoded from the payload. "
    "Write: columns that are no columns of messages become the payload.",
)
METADATA_PREFIX: Final = Option[str](
    "metadataPrefix", "text", parse_text, "", NONE,
    "Prefix of the columns of messages next to the fields of a payload: with `_` they are `_subject`, `_sequence`, ...",
)
MODE: Final = Option[str](
    "mode", ", ".join(f"`{mode.value}`" for mode in ParseMode), one_of(*(mode.value for mode in ParseMode)),
    ParseMode.PERMISSIVE.value, f"`{ParseMode.PERMISSIVE.value}`",
    "Treatment of payloads that cannot be decoded. `PERMISSIVE`: null where nothing could be read. `DROPMALFORMED`: "
    "the row is left out, and the task log has the number. `FAILFAST`: the read fails. With `deadLetterSubject` the "
    "default is `DROPMALFORMED`.", Use.READ,
)
CORRUPT_RECORD_COLUMN: Final = Option[str](
    "columnNameOfCorruptRecord", "name", parse_text, "_corrupt_record", "`_corrupt_record`",
    "Column for the text of payloads that cannot be decoded, if the schema has a column of this name.", Use.READ,
)
SAMPLING_SIZE: Final = Option[int](
    "samplingSize", "number", parse_count, 1000, "1000",
    "Number of messages from which a batch read without a schema infers the fields of the payloads: the first ones of "
    "the read.", Use.READ,
)
# fmt: on


def _options_of_formats() -> tuple[Option[str | None], ...]:
    """Return the options of all formats. The value of each is its text, which `make_format` parses."""
    names = dict.fromkeys(option.name for option in FORMAT_OPTIONS)
    return tuple(_option_of_formats(name) for name in names)


def _option_of_formats(name: str) -> Option[str | None]:
    rows = [option for option in FORMAT_OPTIONS if option.name == name]
    meaning = " ".join(f"For {', '.join(f'`{each}`' for each in row.formats)}: {row.meaning}" for row in rows)
    return Option[str | None](name, rows[0].kind, str, None, rows[0].default_text, meaning)


OPTIONS_OF_FORMATS: Final = _options_of_formats()
"""The options of the formats of payloads, by the names that Spark has for them."""
