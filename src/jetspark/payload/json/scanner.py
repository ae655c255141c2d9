"""The words of a JSON text: spaces, quoted text, numbers, literals. As lenient as the parser of Spark (Jackson).

After a fault the position is where that parser stands, because Spark reads on from there.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from jetspark.payload.json.options import JsonOptions

__all__ = ["BrokenJsonError", "Scanner"]

_SPACES: Final = re.compile(r"[ \t\r\n]*")
_TEXT: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_DIGITS: Final = frozenset("0123456789")
_NUMBER: Final = re.compile(
    r"(?:0(?![0-9])|[1-9][0-9]*+)"
    r"(?:(?:\.[0-9]++)?[eE]([+-]?)[0-9]++|\.[0-9]++(?![eE])()|(?![.eE]))"
)
_BROKEN_NUMBER: Final = re.compile(r"[0-9]+(?:\.(?:[0-9]+[eE][+-]?)?|[eE][+-]?)")
_ZEROS: Final = re.compile(r"0*(?=[0-9])")
_BASE64: Final = re.compile(r'((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"')
_BASE64_DIGITS: Final = {
    char: bits for bits, char in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\"}
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LINE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f]*")
_BLOCK: Final = re.compile(r"(?:[^*\x00-\x08\x0b\x0c\x0e-\x1f]|\*(?!/))*")
_LONGEST_WORD: Final = 256
_IDENTIFIER_START: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_IDENTIFIER_PART: Final = _IDENTIFIER_START | {"Nd", "Mn", "Mc", "Cf"}


class BrokenJsonError(Exception):
    """A payload, or a value in it, that cannot be read."""


def _join_pair(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _starts_identifier(char: str) -> bool:
    return char <= "\uffff" and unicodedata.category(char) in _IDENTIFIER_START


def _is_identifier_part(char: str) -> bool:
    if char <= "\x9f" and not char.isprintable():
        return char not in "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
    return char <= "\uffff" and unicodedata.category(char) in _IDENTIFIER_PART


class Scanner:
    """A position in a JSON text.

    Attributes
    ----------
    text
        The JSON text.
    position
        Index of the next character.
    value
        Text of the last number, or the last quoted text.
    options
        Forms beyond JSON that are allowed, and limits.
    """

    __slots__ = ("options", "position", "text", "value")

    def __init__(self, text: str, options: JsonOptions) -> None:
        self.text = text
        self.position = 0
        self.value = ""
        self.options = options

    def fail(self, message: str) -> NoReturn:
        """Raise the fault of this position."""
        raise BrokenJsonError(f"{message} (before character {self.position})")

    def next_char(self, where: str) -> str:
        """Take the next character. It is a fault if there is none."""
        if self.position >= len(self.text):
            self.fail(f"the payload ends in {where}")
        char = self.text[self.position]
        self.position += 1
        return char

    def significant(self) -> str:
        """Skip spaces and comments, and take one character; at the end it is empty."""
        while True:
            match = _SPACES.match(self.text, self.position)
            assert match is not None
            self.position = match.end()
            char = self.text[self.position : self.position + 1]
            if not char:
                return char
            self.position += 1
            if char == "/":
                self._comment()
            elif char < " ":
                self.fail("a control character is outside of text")
            else:
                return char

    def _comment(self) -> None:
        if not self.options.comments:
            self.fail("a slash is outside of text; option allowComments is false")
        kind = self.next_char("a comment")
        if kind not in "/*":
            self.fail("a slash is outside of text")
        match = (_LINE if kind == "/" else _BLOCK).match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        if kind == "/" and self.position == len(self.text):
            return
        char = self.next_char("a comment")
        if kind == "*" and char == "*":
            self.position += 1
        elif kind == "*" or char not in "\r\n":
            self.fail("a control character is in a comment")

    def quoted(self, quote: str) -> str:
        """Read text up to its closing quote."""
        run = _TEXT[quote]
        parts: list[str] = []
        while True:
            match = run.match(self.text, self.position)
            assert match is not None
            parts.append(match[0])
            self.position = match.end()
            char = self.next_char("text")
            if char == quote:
                return _PAIR.sub(_join_pair, "".join(parts)) if len(parts) > 1 else parts[0]
            if char == "\\":
                parts.append(self._escaped())
            elif self.options.control_characters:
                parts.append(char)
            else:
                self.fail("a control character is in text; option allowUnquotedControlChars is false")

    def _escaped(self) -> str:
        char = self.next_char("text")
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char != "u":
            if self.options.backslash_any or (char == "'" and self.options.single_quotes):
                return char
            self.fail(f"there is no escape \\{ascii(char)[1:-1]}")
        match = _HEX.match(self.text, self.position, self.position + 4)
        assert match is not None
        self.position = match.end()
        if len(match[0]) < 4:
            self.next_char("text")
            self.fail("an escape \\u has no four hexadecimal digits")
        return chr(int(match[0], 16))

    def number(self) -> bool:
        """Read the number whose first character was taken; return whether it is an integer."""
        text = self.text
        negative = text[self.position - 1] == "-"
        at = self.position - (not negative)
        match = _NUMBER.match(text, at)
        if match is None:
            digit = text[at : at + 1]
            if not digit or not "0" <= digit <= "9":
                self.position = at
                return self._number_without_digits(self.next_char("a number"), "-" if negative else "+")
            match = self._number_with_zeros(at, digit)
        self.position = match.end()
        self.value = f"-{match[0]}" if negative else match[0]
        if len(match[0]) > self.options.max_number < sum(map(_DIGITS.__contains__, match[0])):
            self.fail(f"a number is longer than {self.options.max_number} digits")
        return match.lastindex is None

    def _number_with_zeros(self, at: int, digit: str) -> re.Match[str]:
        """Read a number that may start with zeros, or set the position where Jackson gives it up."""
        if digit != "0":
            while "0" <= self.text[at : at + 1] <= "9":
                at += 1
            self.position = at + 1
            self.fail("a number ends with a point or an exponent")
        if self.text[at + 1 : at + 2] in _DIGITS:
            if not self.options.leading_zeros:
                self.position = at + 1
                self.fail("a number starts with a zero; option allowNumericLeadingZeros is false")
            zeros = _ZEROS.match(self.text, at)
            assert zeros is not None
            at = zeros.end()
        match = _NUMBER.match(self.text, at)
        if match is None:
            broken = _BROKEN_NUMBER.match(self.text, at)
            assert broken is not None
            self.position = min(broken.end() + 1, len(self.text))
            self.fail("a number ends with a point or an exponent")
        return match

    def _number_without_digits(self, char: str, sign: str) -> bool:
        words = {"N": "INF", "n": "Infinity"} if char == "I" else {}
        word = words.get(self.next_char("a number")) if words else None
        if word is None:
            self.fail("a sign has no number")
        return self.non_numeric(sign + word, 3)

    def non_numeric(self, word: str, matched: int) -> bool:
        """Read the rest of NaN, Infinity and their like; return that it is no integer."""
        self.literal(word, matched)
        if not self.options.non_numeric_numbers:
            self.fail(f"{word} is no number; option allowNonNumericNumbers is false")
        self.value = word
        return False

    def literal(self, word: str, matched: int) -> None:
        """Read the rest of a word of which some characters were taken."""
        for index in range(matched, len(word)):
            if self.text[self.position : self.position + 1] != word[index]:
                self._fail_word(index)
            self.position += 1
        following = self.text[self.position : self.position + 1]
        if following >= "0" and following not in "]}" and _is_identifier_part(following):
            self._fail_word(len(word))

    def _fail_word(self, taken: int) -> NoReturn:
        end = min(len(self.text), self.position + _LONGEST_WORD - taken)
        while self.position < end and _is_identifier_part(self.text[self.position]):
            self.position += 1
        self.fail("a word is neither true, false nor null")

    def odd_value(self, char: str) -> bool:
        """Read a value beyond JSON: return whether it is text in single quotes, or else a number."""
        if char == "'" and self.options.single_quotes:
            self.value = self.quoted(char)
            return True
        if char == "+":
            return self._number_without_digits(self.next_char("a number"), "+")
        word = {"N": "NaN", "I": "Infinity"}.get(char)
        if word is not None:
            return self.non_numeric(word, 1)
        if not _starts_identifier(char):
            self.fail("a value is missing")
        return self._fail_word(1)

    def odd_name(self, char: str) -> str:
        """Read a name that is not in double quotes."""
        if char == "'" and self.options.single_quotes:
            return self.quoted(char)
        if not self.options.unquoted_names:
            self.fail("a name has no quotes; option allowUnquotedFieldNames is false")
        if not _is_bare(char):
            self.fail("a name is missing")
        start = self.position - 1
        while _is_bare(self.text[self.position : self.position + 1]):
            self.position += 1
        return self.text[start : self.position]

    def base64(self, quoted: bool) -> bytes:
        """Read base64: from the text up to its closing quote, or from the value that was read before.

        As in Jackson, spaces may stand before each group of four.
        """
        match = _BASE64.match(self.text, self.position) if quoted else None
        if match is not None:
            self.position = match.end()
            return b64decode(match[1])
        if quoted:
            return self._base64_groups(self._unescaped)
        if '"' in self.value:
            self.fail("text is no base64")
        outer = (self.text, self.position)
        self.text, self.position = f'{self.value}"', 0
        try:
            return self._base64_groups(str)
        finally:
            self.text, self.position = outer

    def _unescaped(self, char: str) -> str:
        return self._escaped() if char == "\\" else char

    def _base64_groups(self, unescape: Callable[[str], str]) -> bytes:
        parts = bytearray()
        while True:
            char = self.next_char("text")
            if char == '"':
                return bytes(parts)
            first = unescape(char)
            if first > " " and (first != "=" or char == "="):
                parts += self._base64_group(first, unescape)

    def _base64_group(self, first: str, unescape: Callable[[str], str]) -> bytes:
        """Read a group of four characters, the last of which may be padding."""
        number = self._base64_bits(first)
        count = 1
        while count < 4:
            char = self.next_char("text")
            if char == '"' and count > 1:
                self.position -= 1
            char = unescape(char)
            if char == "=" and count > 1:
                break
            number = number << 6 | self._base64_bits(char)
            count += 1
        if count == 2 and unescape(self.next_char("text")) != "=":
            self.fail("text is no base64")
        size = count * 6 // 8
        return (number >> (count * 6 - size * 8)).to_bytes(size)

    def _base64_bits(self, char: str) -> int:
        bits = _BASE64_DIGITS.get(char)
        if bits is None:
            self.fail("text is no base64")
        return bits


def _is_bare(char: str) -> bool:
    return bool(char) and (char in "@#*-+" or (char > " " and _is_identifier_part(char)))
