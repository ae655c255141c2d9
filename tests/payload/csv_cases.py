"""CSV payloads, good and broken ones, for the comparison with Spark's from_csv."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["OPTIONS", "TEXT_SCHEMA", "TYPED_SCHEMA", "text_payloads", "typed_payloads"]

TEXT_SCHEMA: Final = "a string, b string, c string"
TYPED_SCHEMA: Final = (
    "flag boolean, tiny byte, small short, number int, big long, half float, double double, text string, "
    "money decimal(10,2), exact decimal(38,18), day date, at timestamp, local timestamp_ntz, bytes binary"
)
OPTIONS: Final[list[dict[str, str]]] = [
    {},
    {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    {"escape": '"'},
    {"sep": ";", "quote": "'", "comment": "#", "nullValue": "NULL"},
    {"sep": "||"},
    {"delimiter": r"\t", "quote": ""},
    {"charToEscapeQuoteEscaping": "#", "emptyValue": "none", "nullValue": "-"},
    {"dateFormat": "dd/MM/yyyy", "timestampFormat": "yyyy/MM/dd HH:mm:ss", "timestampNTZFormat": "dd.MM.yyyy H:m",
     "timeZone": "Europe/Paris", "nanValue": "nan", "positiveInf": "inf", "negativeInf": "-inf"},
]  # fmt: skip

_PIECES: Final = (
    "a", "b", "1", ",", ",", ",", ";", "||", '"', '"', '""', "'", "\\", '\\"', "\\\\", " ", " ", "\t", "\n", "\r",
    "#", "NULL", "-", "\u00e9", "\U0001f600", '"x"', '"x,y"', '"x\\"y"', '"x""y"', '" x "', '"a\nb"', '","', "x",
)  # fmt: skip
_FIELDS: Final = ("a", "", " b ", '"x"', '"x||y"', '"x\\"y"', '""', '" "', "-", "a\nb", '"a\nb"', "|", "a,b", "\u00e9")
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "boolean": ("true", "false", "TRUE", "False", "t", "1", "yes", " true"),
    "whole": (
        "0", "1", "-1", "+7", "007", "127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.0", " 1", "1 ", "1e3", "\u0663", "--1",
        "", "-0", "0x10", "1_000", "99999999999999999999",
    ),
    "float": (
        "0", "1.5", "-1.5", ".5", "5.", "1e3", "1E-3", "1e400", "-1e400", "NaN", "nan", "Inf", "-Inf", "inf", "-inf",
        "Infinity", "+Infinity", "-Infinity", "1f", "2.5d", " 1.5 ", "0x1p3", "0x1.8p1f", "1e", "e1", "1,5", "-0",
        "-0.0",
        "16777217", "0.1", "123456789.123456789", "4.9e-324", "1e-400", "3.4028236e38", "\u06601", "1_0",
        "1.00000017881393421514957253748434595763683319091796875001",
    ),
    "decimal": (
        "0", "1.5", "-1.005", "1.005", "99999999.99", "99999999.995", "100000000", "1e3", "1E-5", "+1.5", ".5", "5.",
        "1e400", "abc", " 1", "0.000000000000000001", "0.0000000000000000005", "12345678901234567890.5", "1,000", "-0",
        "\u0661",
    ),
    "date": (
        "2020-01-02", "2020-1-2", "2020-13-01", "2020-02-30", "2020", "2020-02", "02/01/2020", "31/12/1999", "1/2/2020",
        "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "2020-01-02T03:04:05", "2020-01-02 x", " 2020-01-02 ",
        "1582-10-10", "18000", "2020-01-02GMT", "epoch", "now", "2020/01/02",
    ),
    "time": (
        "2020-01-02T03:04:05Z", "2020-01-02 03:04:05", "2020-01-02T03:04:05.123456", "2020-01-02T03:04:05.1234567",
        "2020-01-02", "2020-01-02T03:04:05+01:00", "2020-01-02 03:04:05 Europe/Paris", "2020/01/02 03:04:05",
        "2020/1/2 3:4:5", "02.01.2020 3:4", "2020-03-29 02:30:00", "2020/03/29 02:30:00", "2020-10-25T02:30:00",
        "2020-01-02T25:00:00", "2020-01-02T03:04:05GMT+01:00", "0001-01-01T00:00:00", "9999-12-31 23:59:59.999999",
        "1890-01-01T00:00:00", "2020-01-02T03:04", "2020-01-02T03", "2020-1-2 3:4:5.6", "x", "-290308-12-21T00:00:00Z",
        "1600000000", "2020-01-02T03:04:05.000+0100", "2020-01-02 03:04:05 UTC", "12345-01-01T00:00:00Z",
    ),
    "text": ("a", "", " ", "x y", "null", "NULL", "\u00e9"),
}  # fmt: skip
_KINDS: Final = (
    "boolean", "whole", "whole", "whole", "whole", "float", "float", "text", "decimal", "decimal", "date", "time",
    "time", "text",
)  # fmt: skip


def text_payloads(count: int, separator: str, seed: int) -> list[bytes | None]:
    """Return payloads of random pieces: quotes, escapes, separators, line feeds and broken UTF-8."""
    chance = random.Random(seed)
    made: list[bytes | None] = [None, b"", b"a,b,c", b'"a","b","c"', b"a,b\xff,c", b"\xc3\x28,\xe2\x82,\xf0\x9f\x98"]
    while len(made) < count:
        if len(separator) == 1:
            text = "".join(chance.choice(_PIECES) for _ in range(chance.randrange(1, 12)))
        else:  # there, broken quotes are read in another way
            text = separator.join(chance.choice(_FIELDS) for _ in range(chance.randrange(2, 5)))
        made.append(text.encode())
    return made[:count]


def typed_payloads(count: int, separator: str, seed: int) -> list[bytes | None]:
    """Return records with values of all types, most of them good; some have too few or too many fields."""
    chance = random.Random(seed)
    made: list[bytes | None] = []
    for _ in range(count):
        values = [chance.choice(_VALUES[kind]) if chance.random() < 0.9 else "" for kind in _KINDS]
        if chance.random() < 0.1:
            values = [*values, "more"] if chance.random() < 0.5 else values[: chance.randrange(1, len(values))]
        made.append(separator.join(values).encode())
    return made
