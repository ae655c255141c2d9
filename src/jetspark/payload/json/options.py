"""The options of the JSON format: Spark's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jetspark.payload.options import FormatOptions

__all__ = ["JsonOptions"]


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The options of one decoder; `FORMAT_OPTIONS` says what each means."""

    time_zone: str
    timestamp_format: str | None
    timestamp_ntz_format: str | None
    date_format: str | None
    fallback: bool | None
    comments: bool
    single_quotes: bool
    unquoted_names: bool
    leading_zeros: bool
    non_numeric_numbers: bool
    backslash_any: bool
    control_characters: bool
    max_depth: int
    max_number: int
    max_string: int

    @classmethod
    def of(cls, options: FormatOptions) -> JsonOptions:
        """Take the values of parsed options."""

        def text(name: str) -> str | None:
            return options.get(name, str) or None

        return cls(
            options.get("timeZone", str),
            text("timestampFormat"),
            text("timestampNTZFormat"),
            text("dateFormat"),
            {"": None, "true": True, "false": False}[options.get("enableDateTimeParsingFallback", str)],
            options.get("allowComments", bool),
            options.get("allowSingleQuotes", bool),
            options.get("allowUnquotedFieldNames", bool),
            options.get("allowNumericLeadingZeros", bool),
            options.get("allowNonNumericNumbers", bool),
            options.get("allowBackslashEscapingAnyCharacter", bool),
            options.get("allowUnquotedControlChars", bool),
            options.get("maxNestingDepth", int),
            options.get("maxNumLen", int),
            options.get("maxStringLen", int),
        )
