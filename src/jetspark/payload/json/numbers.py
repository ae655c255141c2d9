"""Numbers of JSON texts as Spark reads and writes them."""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite
from typing import Final

__all__ = ["decimal_of", "double_text", "to_decimal", "to_float", "to_float32", "to_long"]

_NON_NUMERIC: Final = {
    "NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "+INF": math.inf,
    "-Infinity": -math.inf, "-INF": -math.inf,
}  # fmt: skip
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?")
_INT32: Final = 2**31
_EXPONENT_DIGITS: Final = 10
_LONG_DIGITS: Final = 20


def to_long(text: str) -> int | None:
    """Return an integer of 64 bits; None if it is larger."""
    if len(text) > _LONG_DIGITS:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def to_float(text: str, *, integer: bool = False) -> float:
    """Return the double of a number."""
    value = _NON_NUMERIC.get(text)
    if value is not None:
        return value
    # Java converts integers of 64 bits by their value, which has no negative zero.
    return float(text) + 0.0 if integer else float(text)


def to_float32(text: str, *, integer: bool) -> float:
    """Return the number of 32 bits that is nearest to a number."""
    value = to_float(text, integer=integer)
    rounded = _round32(value)
    if rounded == value or not isfinite(rounded) or (integer and to_long(text) is None):
        return rounded
    # A double in the middle of two values says nothing about the exact number.
    other = 2 * value - rounded
    exact = Decimal(text)
    if _round32(other) != other or exact == value:
        return rounded
    return max(rounded, other) if exact > value else min(rounded, other)


def _round32(value: float) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def decimal_of(text: str) -> Decimal | None:
    """Return the number of a text; None if it is none, or beyond the exponents of Java."""
    match = _DECIMAL.fullmatch(text)
    if match is None or max(text) > "\uffff":
        return None
    exponent = match[3] or "0"
    if (
        len(exponent.lstrip("+-0")) > _EXPONENT_DIGITS
        or not -_INT32 < len(match[1] or match[2] or "") - int(exponent) < _INT32
    ):
        return None
    return Decimal(text)


def to_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Return a number rounded to a scale; None if it is no number or has too many digits."""
    value = decimal_of(text)
    if value is None or (value and value.adjusted() >= precision - scale):
        return None
    value = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=precision + 1))
    return value if value.adjusted() < precision - scale or not value else None


def double_text(value: float) -> str:
    """Return the shortest text of a double in the form of Java."""
    if not isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    shortest = Decimal(repr(value))
    if len(shortest.as_tuple().digits) == 1 and value:  # Java gives two digits, also if one is enough
        shortest = Decimal(f"{value:.1e}")
    text = "".join(map(str, shortest.as_tuple().digits))
    first = shortest.adjusted()
    stripped = text.rstrip("0") or "0"
    minus = "-" if shortest.is_signed() else ""
    if value and not -3 <= first < 7:
        return f"{minus}{stripped[0]}.{stripped[1:] or '0'}E{first}"
    if first < 0:
        return f"{minus}0.{'0' * (-first - 1)}{stripped}"
    whole = stripped.ljust(first + 1, "0")
    return f"{minus}{whole[: first + 1]}.{whole[first + 1 :] or '0'}"
