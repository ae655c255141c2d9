"""The options of the CSV format: Spark's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jetspark.jetstream.errors import ConfigError

if TYPE_CHECKING:
    from jetspark.payload.options import FormatOptions

__all__ = ["CsvOptions"]

_ESCAPES: Final = {"t": "\t", "b": "\b", "f": "\f", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_NONE: Final = "\0"


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of one format; `FORMAT_OPTIONS` says what each means. A character that is not used is NUL.

    An option whose default differs between reads and writes is None if it is not given.
    """

    separator: str
    quote: str
    escape: str
    escape_escape: str
    comment: str
    null_value: str
    empty_value: str | None
    nan: str
    infinity: str
    negative_infinity: str
    trim_start: bool | None
    trim_end: bool | None
    quote_all: bool
    escape_quotes: bool
    max_columns: int

    @classmethod
    def of(cls, options: FormatOptions) -> CsvOptions:
        """Take the values of parsed options. Raises ConfigError for those that contradict each other."""
        quote, escape = _character(options, "quote"), _character(options, "escape")
        escape_escape = _character(options, "charToEscapeQuoteEscaping")
        if not options.get("charToEscapeQuoteEscaping", str):
            escape_escape = _NONE if quote == escape else escape
        separator = _separator(options.get("sep", str) or options.get("delimiter", str) or ",")
        if quote != _NONE and quote in separator:
            raise ConfigError(f"options sep and quote are both {quote!r}; they must differ")
        empty = options.get("emptyValue", str)
        return cls(
            separator,
            quote,
            escape,
            escape_escape,
            _character(options, "comment"),
            options.get("nullValue", str),
            None if empty == _NONE else empty,
            options.get("nanValue", str),
            options.get("positiveInf", str),
            options.get("negativeInf", str),
            _switch(options, "ignoreLeadingWhiteSpace"),
            _switch(options, "ignoreTrailingWhiteSpace"),
            options.get("quoteAll", bool),
            options.get("escapeQuotes", bool),
            options.get("maxColumns", int),
        )


def _character(options: FormatOptions, name: str) -> str:
    text = options.get(name, str)
    if text in {"", r"\u0000"}:
        return _NONE
    if len(text) > 1:
        raise ConfigError(f"option {name} is {text[:50]!r}: it must be one character")
    return text


def _separator(text: str) -> str:
    parts: list[str] = []
    signs = iter(text.replace(r"\u0000", _NONE))
    for sign in signs:
        if sign != "\\":
            parts.append(sign)
            continue
        escaped = _ESCAPES.get(next(signs, ""))
        if escaped is None:
            raise ConfigError(
                f"option sep is {text[:50]!r}: a backslash stands before one of t, b, f, r, quotes, and \\"
            )
        parts.append(escaped)
    separator = "".join(parts)
    if "\n" in separator:
        raise ConfigError("option sep has a line feed, which ends a record")
    return separator


def _switch(options: FormatOptions, name: str) -> bool | None:
    return {"": None, "true": True, "false": False}[options.get(name, str)]
