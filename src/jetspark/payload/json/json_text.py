"""Writes the current value of a reader as text, for columns of text that are given something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jetspark.payload.json.numbers import double_text, to_float
from jetspark.payload.json.reader import JsonReader, Token

__all__ = ["copy_value", "scalar_text"]

_DEEPEST: Final = 1000
_OPENING: Final[Mapping[Token | None, str]] = {Token.OBJECT: "{", Token.ARRAY: "["}
_CLOSING: Final[Mapping[Token | None, str]] = {Token.END_OBJECT: "}", Token.END_ARRAY: "]"}
_WORDS: Final[Mapping[Token | None, str]] = {Token.TRUE: "true", Token.FALSE: "false", Token.NULL: "null"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def copy_value(reader: JsonReader) -> str:
    """Return the value as Spark renders it: without spaces, fractions as doubles. The reader is at its end then."""
    if reader.token not in _OPENING:
        return _scalar(reader)
    parts: list[str] = []
    depth = 0
    comma = False
    while True:
        token = reader.token
        if token in _CLOSING:
            parts.append(_CLOSING[token])
            depth -= 1
            if not depth:
                return "".join(parts)
            comma = True
        else:
            if comma:
                parts.append(",")
            comma = token is not Token.NAME and token not in _OPENING
            if token in _OPENING:
                parts.append(_OPENING[token])
                depth += 1
                if depth > _DEEPEST:
                    reader.fail(f"the nesting is deeper than {_DEEPEST}")
            else:
                parts.append(f"{_quoted(reader.name or '')}:" if token is Token.NAME else _scalar(reader))
        if reader.advance() is None:
            reader.fail("the payload ends in an object or an array")


def _scalar(reader: JsonReader) -> str:
    token = reader.token
    if token is Token.TEXT:
        return _quoted(reader.read_text())
    if token is Token.INTEGER:
        return "0" if reader.value == "-0" else reader.value
    if token is Token.NUMBER:
        return scalar_text(to_float(reader.value))
    if token not in _WORDS:
        reader.fail("a value is missing")
    return _WORDS[token]


def scalar_text(value: float | bool) -> str:
    """Return a number, true or false as Spark renders it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = double_text(value)
    return text if text[-1].isdigit() else f'"{text}"'


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
