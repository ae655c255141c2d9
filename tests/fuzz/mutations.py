"""Changes of a text by which a server, a forger or a broken disk could surprise a parser."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["ODD_NUMBERS", "ODD_VALUES", "Mutator", "shrink"]

ODD_NUMBERS: Final[tuple[bytes, ...]] = (
    *(b"%d" % number for number in (0, 1, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**20)),
    *(b"-1", b"+5", b"1_000", b" 5", b"5 ", b"\t5", b"1.5", b"1e3", b"1e999", b"0x1f", b"NaN", b"Infinity", b"-0"),
    *(b"", b"x", b"1x", b":", b"007", b"%025d" % 7, b"%020d" % 7, b"9" * 25, b"9" * 400, b"9" * 5000),
    *("\u0661\u0662".encode(), "\uff11".encode(), b"\xb2", "\u00b2".encode(), b"1\x00", b"1\r", b"1\n"),
)
ODD_VALUES: Final[tuple[bytes, ...]] = (
    *(b"null", b"true", b"[]", b"{}", b'""', b'"x"', b"[1]", b'{"a":1}', b"[[[[[[[[]]]]]]]]", b'[{"a":[{}]}]'),
    *(b'"\\ud800"', b'"\\udc00x"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\u0000"', b'"\x00"', b'"\\x"', b'"', b"'x'"),
    *(b'"9999-12-31T23:59:59.999999999-14:00"', b'"0000-01-01T00:00:00Z"', b'"2023-02-30T00:00:00Z"', b'"1969"'),
    *(b'"2023-01-01T00:00:00,5Z"', b'"2023-01-01 00:00:00 +0000 UTC"', b"9223372036854775808000", b'"' + b"x" * 999),
)
_DEEP: Final[tuple[bytes, ...]] = (b"[" * 100_000, b'{"x":' * 100_000, b"[" * 3000 + b"]" * 3000)
_BYTES: Final = b'\r\n\t\x00 .:{}[]",-+0123456789aA\x7f\x80\xff'
_SPANS: Final = re.compile(rb'"[^"]*"|-?[0-9]+|true|false|null|[A-Za-z$_/]+|[:,. ]|\r\n')


class Mutator:
    """Mutations of some seeds.

    Parameters
    ----------
    seeds
        Good texts.
    rng
        Source of chance.
    """

    def __init__(self, seeds: Sequence[bytes], rng: random.Random) -> None:
        self._seeds = [(seed, [found.span() for found in _SPANS.finditer(seed)]) for seed in seeds]
        self._random = rng.random
        self._choice = rng.choice

    def next(self) -> bytes:
        """Return the next mutation."""
        chance = self._random
        text, spans = self._seeds[int(chance() * len(self._seeds))]
        times = 1 if chance() < 0.6 else 1 + int(chance() * 4)
        for turn in range(times):
            text = self._changed(text, spans if turn == 0 else ())
        return text

    def _changed(self, text: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
        kind = self._random()
        if spans and kind < 0.6:
            start, end = spans[int(self._random() * len(spans))]
            if kind < 0.3:
                return text[:start] + self._choice(ODD_NUMBERS) + text[end:]
            if kind < 0.5:
                return text[:start] + self._choice(ODD_VALUES) + text[end:]
            if kind < 0.5005:
                return text[:start] + self._choice(_DEEP) + text[end:]
            if kind < 0.55:
                return text[:start] + text[end:]
            return text[:end] + text[start:]  # twice
        at = int(self._random() * (len(text) + 1))
        if kind < 0.75:
            return text[:at] + bytes((_BYTES[int(self._random() * len(_BYTES))],)) + text[at + 1 :]
        if kind < 0.85:
            return text[:at] + bytes((_BYTES[int(self._random() * len(_BYTES))],)) + text[at:]
        if kind < 0.92:
            return text[:at] + text[at + 1 + int(self._random() * 8) :]
        if kind < 0.97:
            return text[:at]
        other = self._seeds[int(self._random() * len(self._seeds))][0]
        return text[:at] + other[int(self._random() * len(other)) :]


def shrink(data: bytes, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """Return a shorter input that still fails, by leaving out parts, for at most `seconds`."""
    until = time.monotonic() + seconds
    size = max(len(data) // 2, 1)
    while size and time.monotonic() < until:
        at = 0
        while at < len(data) and time.monotonic() < until:
            shorter = data[:at] + data[at + size :]
            if fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
