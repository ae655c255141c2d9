"""Rows of all types that Spark has, for comparisons with Spark's own encoders and decoders."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

__all__ = ["NESTED", "SCALARS", "sample_rows"]

SCALARS = (
    "flag boolean, tiny byte, small short, number int, big long, half float, double double, text string, "
    "money decimal(10,2), exact decimal(38,18), day date, at timestamp, local timestamp_ntz"
)
"""Fields of one value each, as a schema of Spark."""
NESTED = (
    "bytes binary, list array<double>, lists array<array<string>>, pair struct<`a b`: int, inner: struct<x: date>>, "
    "map map<string, timestamp>, counts map<int, struct<n: bigint>>, days map<date, float>"
)
"""Fields that have others in them, and bytes."""

_TEXTS = (
    "", " ", "a", "  both  ", "comma, semicolon; tab\t", 'a "quote"', '"', '""', "back\\slash", "\\", "\\\"",
    "line\nfeed",
    "carriage\r\nreturn", "\x00\x01\x1f\x7f", "null", "NaN", "#comment", "gr\u00fcn \u20ac \U0001f600 \u2028", "a'b",
    "\b\f", "tab\t", "a\\\nb", "x\\", ',', ',,', "\u00a0", "-",
)  # fmt: skip
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.001, 9.5e-4, 1e7, 9999999.0, 1.25e10, -3.5e-9, 1e300, 123456.789)
_STRANGE = (float("nan"), float("inf"), float("-inf"))
_NULLS = 0.15


class _Rows:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        if self.random.random() < 0.7:
            return self.random.choice(_TEXTS)
        return "".join(self.random.choice('ab ",;\\\n\r\t#\u00e9') for _ in range(self.random.randrange(8)))

    def double(self) -> float:
        which = self.random.random()
        if which < 0.1:
            return self.random.choice(_STRANGE)
        return self.random.choice(_FLOATS) if which < 0.6 else round(self.random.uniform(-1e6, 1e6), 3)

    def single(self) -> float:
        return self.random.choice((*_STRANGE, 0.0, -0.5, 1.0, 0.1, 16777216.0, 3.5e30, 1.5e-6, 2.25))

    def day(self) -> date:
        return (
            self.random.choice((date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 4), date(1969, 12, 31)))
            if (self.random.random() < 0.2)
            else date(1900, 1, 1) + timedelta(days=self.random.randrange(80_000))
        )

    def moment(self) -> datetime:
        return datetime(1880, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=self.random.randrange(170 * 365 * 86_400 * 10**6)
        )

    def decimal(self, digits: int, scale: int) -> Decimal:
        number = self.random.choice((0, 1, -1, self.random.randrange(10**digits), -self.random.randrange(10**3)))
        return Decimal(number).scaleb(-scale)

    def maybe(self, value: Any) -> Any:
        return None if self.random.random() < _NULLS else value

    def items(self, make: Any) -> list[Any]:
        return [self.maybe(make()) for _ in range(self.random.randrange(4))]

    def scalars(self) -> tuple[Any, ...]:
        whole = self.random.choice((0, 1, -1, self.random.randrange(-128, 128)))
        return tuple(
            map(
                self.maybe,
                (
                    self.random.random() < 0.5,
                    whole,
                    whole * 250,
                    whole * 16_000_000,
                    self.random.randrange(-(2**63), 2**63),
                    self.single(),
                    self.double(),
                    self.text(),
                    self.decimal(10, 2),
                    self.decimal(30, 18),
                    self.day(),
                    self.moment(),
                    self.moment().replace(tzinfo=None),
                ),
            )
        )

    def nested(self) -> tuple[Any, ...]:
        return tuple(
            map(
                self.maybe,
                (
                    self.random.randbytes(self.random.randrange(6)),
                    self.items(self.double),
                    self.items(lambda: self.items(self.text)),
                    (self.maybe(self.random.randrange(9)), self.maybe((self.maybe(self.day()),))),
                    {self.text(): self.maybe(self.moment()) for _ in range(self.random.randrange(3))},
                    {self.random.randrange(99): self.maybe((self.maybe(5),)) for _ in range(self.random.randrange(3))},
                    {self.day(): self.maybe(self.single()) for _ in range(self.random.randrange(3))},
                ),
            )
        )


def sample_rows(count: int, seed: int = 7, *, nested: bool = True) -> list[tuple[Any, ...]]:
    """Return rows with the columns `SCALARS`, then those of `NESTED` if these are wanted. The first has only nulls."""
    rows = _Rows(seed)
    made = [rows.scalars() + (rows.nested() if nested else ()) for _ in range(count - 1)]
    return [(None,) * len(made[0]), *made]
