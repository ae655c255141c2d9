"""Reads JSON token by token, in the same steps as the parser of Spark (Jackson).

Spark reads on after a value that it cannot convert. The values that follow depend on where its parser stands. So this
one takes the same steps: a value is read together with its name, but text in double quotes only when its content is
wanted.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from jetspark.payload.json.scanner import Scanner

if TYPE_CHECKING:
    from jetspark.payload.json.options import JsonOptions

__all__ = ["JsonReader", "Token"]

_LONGEST_NAME: Final = 50_000


class Token(Enum):
    """The kinds of tokens; the value is the description in a reason."""

    NAME = "a name"
    OBJECT = "an object"
    END_OBJECT = "the end of an object"
    ARRAY = "an array"
    END_ARRAY = "the end of an array"
    TEXT = "text"
    INTEGER = "an integer"
    NUMBER = "a number with a fraction or an exponent"
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


_LITERALS: Final = {"t": (Token.TRUE, "true"), "f": (Token.FALSE, "false"), "n": (Token.NULL, "null")}
_NUMBER_STARTS: Final = frozenset("-0123456789")
_STARTS: Final = {"[": Token.ARRAY, "{": Token.OBJECT}
_ENDS: Final = {"]": Token.END_ARRAY, "}": Token.END_OBJECT}


class JsonReader(Scanner):
    """A position in a JSON text, with the objects and arrays around it.

    Attributes
    ----------
    token
        The current token; None before the first one and at the end.
    """

    __slots__ = ("_indexes", "_kinds", "_names", "_next", "_unread", "token")

    def __init__(self, text: str, options: JsonOptions) -> None:
        super().__init__(text, options)
        self.token: Token | None = None
        self._next: Token | None = None
        self._unread = False
        # The document, and the objects and arrays around the position: kind, index of the value, name of the field.
        self._kinds: list[Token | None] = [None]
        self._indexes = [-1]
        self._names: list[str | None] = [None]

    @property
    def depth(self) -> int:
        """Number of the objects and arrays around the position."""
        return len(self._kinds) - 1

    @property
    def name(self) -> str | None:
        """Name of the field of the current token; None in an array."""
        if self.token is Token.OBJECT or self.token is Token.ARRAY:
            return self._names[-2]
        return self._names[-1]

    def advance(self) -> Token | None:
        """Go to the next token and return it; None at the end. Raises BrokenJsonError."""
        if self.token is Token.NAME:
            found, self._next = self._next, None
            if found is Token.OBJECT or found is Token.ARRAY:
                self._open(found)
            self.token = found
            return found
        if self._unread:
            self._unread = False
            self.quoted('"')
        char = self.significant()
        if not char:
            if self.depth:
                self.fail("the payload ends in an object or an array")
            self.token = None
            return None
        end = _ENDS.get(char)
        if end is not None:
            self._close(end)
            return end
        kind = self._kinds[-1]
        self._indexes[-1] += 1
        if self._indexes[-1] and kind is not None:
            if char != ",":
                self.fail("a comma is missing")
            char = self.significant()
        if kind is Token.OBJECT:
            self._names[-1] = self._read_name(char)
            self.token = Token.NAME
            if self.significant() != ":":
                self.fail("a colon is missing")
            self._next = self._read_value(self.significant())
            return Token.NAME
        found = self._read_value(char)
        if found is Token.OBJECT or found is Token.ARRAY:
            self._open(found)
        self.token = found
        return found

    def _read_name(self, char: str) -> str:
        name = self.quoted(char) if char == '"' else self.odd_name(char)
        if len(name) > _LONGEST_NAME:
            self.fail(f"a name has more than {_LONGEST_NAME} characters")
        return name

    def _read_value(self, char: str) -> Token:
        if char == '"':
            self._unread = True
            return Token.TEXT
        if char in _STARTS:
            return _STARTS[char]
        if char in _NUMBER_STARTS:
            return Token.INTEGER if self.number() else Token.NUMBER
        if char in _LITERALS:
            token, word = _LITERALS[char]
            self.literal(word, 1)
            return token
        if not char:
            self.fail("the payload ends in an object or an array")
        return Token.TEXT if self.odd_value(char) else Token.NUMBER

    def _open(self, kind: Token) -> None:
        self._kinds.append(kind)
        self._indexes.append(-1)
        self._names.append(None)
        if self.depth > self.options.max_depth:
            self.fail(f"the nesting is deeper than {self.options.max_depth}")

    def _close(self, end: Token) -> None:
        if self._kinds[-1] is not (Token.ARRAY if end is Token.END_ARRAY else Token.OBJECT):
            self.fail("a closing bracket has no opening one")
        self._kinds.pop()
        self._indexes.pop()
        self._names.pop()
        self.token = end

    def skip_children(self) -> None:
        """Go to the end of the object or the array that starts here."""
        if self.token is not Token.OBJECT and self.token is not Token.ARRAY:
            return
        depth = self.depth
        while self.depth >= depth:
            if self.advance() is None and self.depth:
                self.fail("the payload ends in an object or an array")

    def read_text(self) -> str:
        """Return the content of a text, or the characters of a number."""
        if self._unread:
            self._unread = False
            self.value = self.quoted('"')
        if self.token is Token.TEXT and len(self.value) > self.options.max_string:
            self.fail(f"text has more than {self.options.max_string} characters")
        return self.value

    def read_bytes(self) -> bytes:
        """Return the bytes of a text in base64."""
        found = self.base64(self._unread)
        self._unread = False
        return found
