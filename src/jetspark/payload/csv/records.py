"""Cuts one record of CSV into its fields, as the parser of Spark does, also where quotes are not as they should be."""

from __future__ import annotations

import re
from typing import Final

from jetspark.payload.csv.options import CsvOptions

__all__ = ["RecordReader"]

_END: Final = "\0"
"""The end of a record: Spark's from_csv takes line feeds as any other character."""
_NONE: Final = "\0"


class RecordReader:
    """Reads records. It is picklable, and has no state between two calls."""

    def __init__(self, options: CsvOptions) -> None:
        self._separator = options.separator
        self._quote = options.quote
        self._escape = options.escape
        self._escape_escape = options.escape_escape
        self._comment = options.comment
        self._null = options.null_value
        self._empty = options.empty_value or ""
        self._trim_start = bool(options.trim_start)
        self._trim_end = bool(options.trim_end)
        self._end = re.compile(f"{re.escape(options.separator)}|{_END}")
        special = {sign for sign in (self._quote, self._escape, self._escape_escape) if sign != _NONE} or {_NONE}
        self._escaped = re.compile(f"{re.escape(self._escape)}[{re.escape(self._quote + self._escape_escape)}]")
        self._special = re.compile(f"[{''.join(map(re.escape, sorted(special)))}]")

    def read(self, text: str) -> list[str] | None:
        """Return the fields of the first record of a text; None if it has none."""
        at, fields = 0, list[str]()
        while text.startswith(_END, at):
            at += 1
        if at == len(text) or (self._comment != _NONE and text[at] == self._comment):
            return None
        while True:
            if self._trim_start:
                at = self._skip_spaces(text, at, self._quote)
            if at == len(text) or text[at] == _END:
                fields.append(self._null)
                return fields
            if text.startswith(self._separator, at):
                value = self._null
            elif text[at] == self._quote:
                value, at = self._quoted(text, at)
            else:
                value, at = self._plain(text, at)
            fields.append(value)
            if at == len(text) or text[at] == _END:
                return fields
            at += len(self._separator)

    def _skip_spaces(self, text: str, at: int, stop: str = "") -> int:
        while (
            at < len(text)
            and text[at] <= " "
            and text[at] not in (_END, stop)
            and not text.startswith(self._separator, at)
        ):
            at += 1
        return at

    def _plain(self, text: str, at: int) -> tuple[str, int]:
        """Return the value that begins at a place and has no quote, and where it ends."""
        end = self._end_of(text, at)
        value = _trimmed(text[at:end]) if self._trim_end else text[at:end]
        if end == len(text) and len(self._separator) > 1 and value.endswith(self._quote):
            value += self._quote  # Spark's parser does so at the end of the text
        return value or (self._empty if end == len(text) else self._null), end

    def _quoted(self, text: str, start: int) -> tuple[str, int]:
        """Return the value that begins with the quote at a place, and where it ends."""
        parts: list[str] = []
        at = start + 1
        end = text.find(self._quote, at)
        if end > 0 and text[end + 1 : end + 2] == self._separator and not self._escaped.search(text, at, end + 1):
            return text[at:end] or self._empty, end + 1
        while match := self._special.search(text, at):
            place = match.start()
            parts.append(text[at:place])
            following = text[place + 1 : place + 2]
            sign = match[0]
            if sign == self._escape_escape and following == self._escape:
                parts.append(self._escape)
                at = place + 2
            elif sign == self._escape and following == self._quote:
                parts.append(self._quote)
                at = place + 2
            elif sign == self._quote:
                at = place + 1
                while text.startswith(self._quote, at):  # of quotes in a row, all but one belong to the value
                    parts.append(self._quote)
                    at += 1
                if at == len(text) or text[at] != self._escape:
                    return self._closed("".join(parts), text, at)
                at = self._after_quote_and_escape(parts, text, at)
            else:
                if sign == self._escape and following:
                    parts.append(sign)
                at = place + 1
        if start + 1 == len(text):
            return self._quote, len(text)
        return "".join([*parts, text[at:]]) or self._empty, len(text)

    def _closed(self, value: str, text: str, at: int) -> tuple[str, int]:
        """Return a value after whose last quote the text goes on at a place, and where it ends."""
        after = self._skip_spaces(text, at)
        if after == len(text) or text[after] == _END or text.startswith(self._separator, after):
            return value or self._empty, after
        # Other text follows, so the quotes were none: all of it is the value.
        end = self._end_of(text, after + 1)
        whole = f"{self._quote}{value}{self._quote}{text[at:end]}"
        spaced, open_quote = after > at, text[after + 1 : after + 2] == self._quote != text[after]
        if spaced and open_quote and end == len(text) and text[after] <= "\uffff":
            whole += self._quote  # Spark's parser does so at the end of the text
        if self._trim_end:
            whole = _trimmed(whole)
        return whole, end

    def _after_quote_and_escape(self, parts: list[str], text: str, at: int) -> int:
        """Add what follows a quote that an escape follows; return where the value in quotes goes on.

        Spark's parser reads up to the next separator, drops it, and believes to be in quotes again.
        """
        quote, escape = self._quote, self._escape
        parts.append(quote)
        before, repeats = escape, 1
        while at < len(text):
            sign = text[at]
            if sign == _END or text.startswith(self._separator, at):
                at += 1 if sign == _END else len(self._separator)
                before, repeats = "", repeats - 1
                if not repeats:
                    break
                continue
            if sign not in {quote, escape}:
                parts.append(quote + sign if before == quote else sign)
            elif sign == escape and before == self._escape_escape:
                parts.append(escape)
                sign = ""
            elif before == escape:
                parts.append(sign)
                sign = "" if sign == quote else sign
            elif before == quote and sign == quote:
                parts.append(quote)
            elif before == quote:
                parts.append(quote + escape)
                repeats += 1
                sign = "" if escape == self._escape_escape else sign
            before = sign
            at += 1
        return at

    def _end_of(self, text: str, at: int) -> int:
        match = self._end.search(text, at)
        return len(text) if match is None else match.start()


def _trimmed(value: str) -> str:
    end = len(value)
    while end and value[end - 1] <= " ":
        end -= 1
    return value[:end]
