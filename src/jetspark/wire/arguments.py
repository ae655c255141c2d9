"""Checks of names: an unknown name is an error that suggests the right one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from jetspark.wire.errors import ArgumentError

__all__ = ["check_names", "did_you_mean", "nearest_name"]

_MAX_NAME_LENGTH: Final = 64
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})


def nearest_name(
    name: str, known: Collection[str], aliases: Mapping[str, str] = _NO_ALIASES, *, cutoff: float = 0.5
) -> str | None:
    """Return the known name that `name` probably means; None if none is similar enough.

    Parameters
    ----------
    aliases
        Other words for known names, in lower case: words of other libraries, which need not be similar.
    cutoff
        How similar the names must be, from 0 to 1.
    """
    ours = name[:_MAX_NAME_LENGTH].lower()  # the comparison takes the square of the length
    if (meant := aliases.get(ours)) in known:
        return meant
    lower = {each.lower(): each for each in known}
    close = get_close_matches(ours, lower, 1, cutoff)
    return lower[close[0]] if close else None


def did_you_mean(name: str, known: Collection[str], aliases: Mapping[str, str] = _NO_ALIASES) -> str:
    """Return the end of an error message: `; did you mean 'x'?`, or nothing if no known name is similar."""
    nearest = nearest_name(name, known, aliases)
    return f"; did you mean {nearest!r}?" if nearest else ""


def check_names(
    owner: str, noun: str, given: Iterable[str], known: Collection[str], aliases: Mapping[str, str] = _NO_ALIASES
) -> None:
    """Check that every given name is known.

    Parameters
    ----------
    owner, noun
        For the message: `ConnectOptions` has no `field` of that name.

    Raises
    ------
    ArgumentError
        A name is unknown.
    """
    for name in given:
        if name not in known:
            raise ArgumentError(f"{owner} has no {noun} {name!r}{did_you_mean(name, known, aliases)}")
