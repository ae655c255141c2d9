"""Globs for names of objects and of streams, in the syntax of Spark's `pathGlobFilter`.

`*` is any text, also with slashes, `?` one character, `[a-z]` one of some characters and `[^a-z]` none of them, `{a,b}`
one of several globs. After a backslash, a character has no special meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parse_glob"]


def parse_glob(text: str) -> re.Pattern[str]:
    """Return the pattern of a whole name. Raises ValueError if the glob is not valid."""
    if not text:
        raise ValueError("it is empty")
    try:
        return re.compile("".join(_parts(text)), re.DOTALL)
    except re.error as error:  # such as the range z-a
        raise ValueError(f"it is no glob: {error.msg}") from None


def _parts(text: str) -> Iterator[str]:
    """Yield a regular expression for each part of a glob."""
    letters = iter(text)
    depth = 0
    last = ""
    for letter in letters:
        if letter == "*" and last == "*":
            continue  # the same as one, and quicker to match
        last = letter
        if letter == "*":
            yield ".*"
        elif letter == "?":
            yield "."
        elif letter == "[":
            yield _character_class(letters)
        elif letter == "{":
            depth += 1
            yield "(?:"
        elif letter == "}" and depth:
            depth -= 1
            yield ")"
        elif letter == "," and depth:
            yield "|"
        else:
            yield _literal(letter, letters)
    if depth:
        raise ValueError("it is no glob: a { has no }")


def _character_class(letters: Iterator[str]) -> str:
    found = "["
    empty = True
    for letter in letters:
        if letter == "]":
            if empty:
                break
            return found + "]"
        if letter in "^!" and found == "[":
            found += "^"
            continue
        found += "-" if letter == "-" else _literal(letter, letters)
        empty = False
    raise ValueError("it is no glob: a [ has no ], or nothing is between them")


def _literal(letter: str, letters: Iterator[str]) -> str:
    """Return a character without special meaning; after a backslash, that is the next one."""
    if letter == "\\":
        letter = next(letters, "")
        if not letter:
            raise ValueError("it is no glob: it ends with a backslash")
    return re.escape(letter)
