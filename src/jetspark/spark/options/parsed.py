"""Parses the options that Spark passes, each by its row of the table. An error names the option.

For an unknown option, the error suggests the most similar one. Options for another use are allowed, so that a table
that is read and written has one set of options. No message and no `repr` shows the value of a secret option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar, cast

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.option import Option, Use
from jetspark.spark.options.table import OPTIONS
from jetspark.wire.arguments import nearest_name

__all__ = ["ParsedOptions", "RedactedOptions", "conflicting_options", "option_errors"]

T = TypeVar("T")

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_SUGGESTIONS: Final = {
    **{
        option.kafka_option.lower(): option
        for option in OPTIONS
        if option.kafka_option and option.kafka_option.lower() not in _BY_NAME
    },
    "path": table.STREAM,
    "streams": table.STREAM,
    "filtersubjects": table.SUBJECT,
    "url": table.SERVERS,
}
_READS: Final = (Use.READ, Use.READ_STREAM)
_SPARK_OPTIONS: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)
"""Options of `writeStream` that Spark reads itself, and also passes to the source."""


class RedactedOptions(Mapping[str, str]):
    """Options whose `repr` shows neither names nor values."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __repr__(self) -> str:
        return f"<{len(self)} options>"

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


@contextmanager
def option_errors(option: Option[object]) -> Iterator[None]:
    """Raise a ValueError of the `with` block as a ConfigError that names the option."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"option {option.name}: {error}") from None


class ParsedOptions:
    """The parsed values of the given options. The other options have their defaults.

    Parameters
    ----------
    options
        As Spark passes them.
    use
        Kind of read or write. Options for other kinds are parsed, too.
    """

    def __init__(self, options: Mapping[str, str], use: Use) -> None:
        self.use = use
        self._values: dict[str, object] = {}
        for name in options:  # no value in a local variable: Spark can print these with a traceback
            if use is Use.WRITE_STREAM and name.lower() in _SPARK_OPTIONS:
                continue
            option = _BY_NAME.get(name.lower())
            if option is None:
                raise ConfigError(_unknown(name, use))
            self._values[option.name] = _value(option, options[name])

    def __contains__(self, option: Option[object]) -> bool:
        return option.name in self._values

    def __getitem__(self, option: Option[T]) -> T:
        return cast("T", self._values.get(option.name, option.default))


def _value(option: Option[T], text: str) -> T:
    try:
        return option.parse(text)
    except ValueError as error:
        if option.secret:
            # The parsers of secret options name no value.
            raise ConfigError(f"option {option.name} cannot be read (its value is not shown): {error}") from None
        raise ConfigError(f"option {option.name} is {_shown(text)}: {error}") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...") if "@" not in text else "not shown"


def _unknown(name: str, use: Use) -> str:
    # Spark asks a batch and a stream for their schema in the same way, so options for both are listed.
    general, streaming = (Use.READ, Use.READ_STREAM) if use in _READS else (Use.WRITE, Use.WRITE_STREAM)
    fitting = {key: option for key, option in _BY_NAME.items() if option.use in streaming.accepted_uses}
    nearest = _SUGGESTIONS.get(name.lower()) or _BY_NAME[nearest_name(name, fitting, cutoff=0.0) or ""]
    common = ", ".join(sorted(option.name for option in fitting.values() if option.use in general.accepted_uses))
    more = ", ".join(sorted(option.name for option in fitting.values() if option.use is streaming))
    return (
        f"there is no option {name!r}; did you mean {nearest.name}? The options for a {general.value} are: {common}; "
        f"and only for a {streaming.value}: {more}"
    )


def conflicting_options(one: Option[object], other: Option[object], value: str = "") -> ConfigError:
    """Return the error for two options of which only one can be given."""
    return ConfigError(f"options {one.name} and {other.name}{value} contradict each other; give one of them")
