"""Read JSON and numbers that come from the network or from a file: the one place for text that nobody has checked.

The readers of Python and msgspec raise errors of many kinds for bad text: for bytes that are not UTF-8, for a document
that is nested too deeply, for a number with thousands of digits. `int` also accepts signs, blanks, underscores and the
digits of other scripts. Here each text is read, or refused in one way.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

__all__ = ["MAX_DIGITS", "MAX_INT64", "MAX_UINT64", "decode_json", "parse_number", "quote"]

T = TypeVar("T")

MAX_INT64: Final = 2**63 - 1
"""Largest sequence or time of a column of integers."""
MAX_UINT64: Final = 2**64 - 1
"""Largest number of the server."""

MAX_DIGITS: Final = 20
"""Digits of the largest number."""
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_SHOWN: Final = 200  # bytes of a bad text in an error


def decode_json(decoder: msgspec.json.Decoder[T], text: bytes | str) -> T:
    """Read JSON with a decoder.

    Raises
    ------
    msgspec.DecodeError
        The text is not JSON of the decoder's type; it is not UTF-8, or is nested too deeply; a number that is not a
        float is outside of the server's range, which is -2^63 to 2^64 - 1.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        if _LONG_NUMBER.search(data) is not None:
            _check_numbers(_any_decoder.decode(data))
        return decoder.decode(data)
    except msgspec.DecodeError:
        raise
    except RecursionError:
        raise msgspec.DecodeError("the JSON is nested too deeply") from None
    except (ValueError, OverflowError) as error:  # not UTF-8; a time or a duration out of range
        raise msgspec.DecodeError(str(error)) from None


_any_decoder: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)


def _check_numbers(document: object) -> None:
    """Raise ValidationError if an integer of the document does not fit in 64 bits."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and not -MAX_INT64 - 1 <= value <= MAX_UINT64:
            raise msgspec.ValidationError("an integer has more than 64 bits")


def parse_number(text: str | bytes | None, most: int = MAX_UINT64) -> int | None:
    """Read an unsigned decimal of ASCII digits; None if the text is not one, has over 20 digits, or exceeds `most`."""
    if not text or len(text) > MAX_DIGITS or not text.isdigit() or not text.isascii():
        return None
    number = int(text)
    return number if number <= most else None


def quote(text: str | bytes) -> str:
    """Return a bad text for an error: quoted, and cut if it is long."""
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")
