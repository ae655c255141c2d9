"""The options of the formats: one table, by which they are parsed, checked and documented.

Names and meanings are those of Spark's own options for the same format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from jetspark.jetstream.errors import ConfigError
from jetspark.wire.arguments import nearest_name

__all__ = ["FORMAT_OPTIONS", "FormatOption", "FormatOptions", "parse_format_options"]

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


FORMAT_OPTIONS: Final[tuple[FormatOption, ...]] = ()
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
