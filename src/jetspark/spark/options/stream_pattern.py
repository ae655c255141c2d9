"""The option `streamPattern`: a read of all streams whose names match a glob."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options.globs import parse_glob

__all__ = ["StreamPattern", "parse_stream_pattern"]

_MAX_STREAMS: Final = 1_000
"""Maximum number of streams of a read: the state of each is requested, and each has an offset in every micro-batch."""
_NOT_IN_NAMES: Final = re.compile(r"[\s.>/]")


@dataclass(frozen=True, slots=True)
class StreamPattern:
    """A glob for names of streams: `*` any text, `?` one character, `[a-z]`, `[^a-z]`, `{A,B}`.

    Attributes
    ----------
    text
        The glob.
    regex
        The pattern of a whole name.
    """

    text: str
    regex: re.Pattern[str]

    def __str__(self) -> str:
        return self.text

    def matches(self, name: str) -> bool:
        """Whether a stream belongs to the read."""
        return self.regex.fullmatch(name) is not None

    def select(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that match, sorted. Raises ConfigError for too many."""
        found = tuple(sorted({name for name in names if self.matches(name)}))
        if len(found) > _MAX_STREAMS:
            raise ConfigError(
                f"option streamPattern = {self.text} matches {len(found)} streams; at most {_MAX_STREAMS} are allowed: "
                "give a narrower pattern"
            )
        return found


def parse_stream_pattern(text: str) -> StreamPattern:
    """Read a glob for names of streams. Raises ValueError if no stream can match."""
    text = text.strip()
    bad = _NOT_IN_NAMES.search(text)
    if bad:
        raise ValueError(
            f"it has {bad[0]!r}, which no name of a stream has; it is a glob for names (* is any text, ? one "
            "character), not a subject"
        )
    return StreamPattern(text, parse_glob(text))
