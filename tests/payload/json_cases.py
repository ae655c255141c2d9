"""Seeded generator of schemas and JSON texts: correct ones, wrong ones, and mutated ones."""

from __future__ import annotations

import json
import random

import pyarrow as pa

__all__ = ["JsonCases"]

_NUMBERS = (
    "0", "1", "-1", "-0", "7", "42", "127", "128", "-128", "-129", "200", "255", "256", "32767", "32768", "2147483647",
    "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "123456789012345678901234567890", "1.0", "1.5", "-2.25", "0.1", "0.005", "2.675", "1e3", "1E-3", "1e+2", "-1.5e10",
    "1e38", "1e39", "1e400", "-1e400", "1e-400", "16777217", "9007199254740993", "1.000000059604644775390625",
    "1.00000005960464477539062500000001", "3.4028235e38", "3.4028236e38", "99999999.995", "12345.678", "01", "1.", ".5",
    "+1", "-", "1e", "NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF", "0x10", "1_000", "007", "-007", "00",
)  # fmt: skip
_TEXTS = (
    "", "a", "hello world", "gr\u00fcn", "\u4e2d\u6587", "\U0001f600", "null", "true", "1", "1.5", "NaN", "Infinity",
    "-INF",
    "+Infinity", "1,234.5", " 1", ".5", "5.", "1e3", "AQID", "AQI=", "AQ==", "AQI", "A QI=", "AQIDBA==", "AQ=", "=",
    "{}",
    "[1]", "\x00", "\t", "\n", "\x1f", "\x7f", "\u2028", "a\"b", "a\\b", "a/b", "'", "\ufeff", "\ufffd", "\ud800",
    "\udc00x",
)  # fmt: skip
_TIMES = (
    "2020-01-02", "2020-1-2", "2020", "2020-01", "2020-02-30", "2020-01-02 ", " 2020-01-02", "+2020-01-02",
    "-0001-01-01",
    "2020-01-02T03:04:05", "2020-01-02 03:04:05.5", "2020-01-02T03:04:05.123456789Z", "2020-01-02T03:04:05+01:00",
    "2020-01-02T03:04:05 +1:0", "2020-01-02T03:04:05-0830", "2020-01-02T03:04", "2020-01-02T03", "2020-01-02T",
    "2020-01-02T03:04Z", "2020-01-02T03:04:05 Europe/Berlin", "2021-03-28T02:30:00", "2021-10-31T02:30:00",
    "2021-03-28T02:30:00Europe/Berlin", "2020-01-02T03:04:05GMT", "2020-01-02GMT", "2020-01-02T24:00:00",
    "2020-01-02T23:59:60", "2020-13-01", "1582-10-10", "0000-01-01", "1500-02-29", "9999-12-31T23:59:59.999999",
    "10000-01-01", "294247-01-10T04:00:54.775807", "294248-01-01", "123", "-12", "12345678", "-12345678", "20200102",
    "1577836800", "2020/01/02", "2020-01-02x", "2020-01-02T03:04:05PST", "2020-01-02T03:04:05z", "2020-01-02T03:04:05.",
    "2020-01-02T03:04:05.Z", "1883-11-18T12:03:58 America/New_York", "1900-01-01T00:00:00",
)  # fmt: skip
_SPACES = ("", "", "", "", " ", "\n", "\t", "\r\n", "  ")
_PIECES = (
    *'{}[]:,"\\/-+.eE0123456789aut \n\t\r\'', "\x00", "\x0b", "\ufeff", '""', "{}", "[]", "null", "true", "false",
    "tru",
    "NaN", "/*c*/", "//c\n", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\q", "\\'", "\\u12", "'x'", ",,", "1e5",
    "\u00e9", "#",
)  # fmt: skip
_BYTES = (
    b"\xff",
    b"\xc3",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xed\xa0",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xf5\x80",
    b"\x80",
)
_NAMES = ("a", "b", "c", "A", "gr\u00fcn", "x y", "a.b", "1", "", "\U0001f600")

_SWITCHES = (
    "allowComments", "allowSingleQuotes", "allowUnquotedFieldNames", "allowNumericLeadingZeros",
    "allowNonNumericNumbers", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars",
    "enableDateTimeParsingFallback",
)  # fmt: skip
_PATTERNS = {
    "timestampFormat": ("yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]", "yyyy-MM-dd[ HH:mm:ss]"),
    "timestampNTZFormat": ("yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]", "yyyy-MM-dd"),
    "dateFormat": ("yyyy-MM-dd", "yyyy-M-d"),
}


class JsonCases:
    """Schemas, and JSON texts for them; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self) -> pa.Schema:
        """Return a schema of some columns, a few of them nested."""
        return pa.schema(self._fields(self._random.randint(1, 5), 0))

    def options(self) -> dict[str, str]:
        """Return some options of the format, for many schemas none."""
        choose = self._random
        options: dict[str, str] = {"timeZone": choose.choice(("UTC", "Europe/Berlin", "America/St_Johns", "+05:30"))}
        if choose.random() < 0.5:
            return options
        options.update({name: choose.choice(("true", "false")) for name in _SWITCHES if choose.random() < 0.5})
        options.update({name: choose.choice(patterns) for name, patterns in _PATTERNS.items() if choose.random() < 0.4})
        if choose.random() < 0.2:
            options["maxNestingDepth"] = choose.choice(("2", "3", "5"))
        return options

    def payloads(self, schema: pa.Schema, count: int) -> list[bytes]:
        """Return texts for a schema: about a half is correct."""
        kinds = [(field.name, field.type) for field in schema]
        return [self._payload(kinds) for _ in range(count)]

    def _fields(self, count: int, depth: int) -> list[pa.Field]:
        names = self._random.sample(_NAMES, count)
        return [pa.field(name, self._type(depth)) for name in names]

    def _type(self, depth: int) -> pa.DataType:
        choose = self._random
        if depth < 3 and choose.random() < 0.3:
            kind = choose.choice(("list", "map", "struct"))
            if kind == "list":
                return pa.list_(self._type(depth + 1))
            if kind == "map":
                return pa.map_(pa.string(), self._type(depth + 1))
            return pa.struct(self._fields(choose.randint(1, 3), depth + 1))
        precision = choose.randint(1, 38)
        return choose.choice(
            (
                pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
                pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"),
                pa.decimal128(precision, choose.randint(0, precision)), pa.decimal128(10, 2),
            )
        )  # fmt: skip

    def _payload(self, kinds: list[tuple[str, pa.DataType]]) -> bytes:
        choose = self._random
        text = self._object(kinds, 0.08 if choose.random() < 0.6 else 0.0)
        if choose.random() < 0.05:
            text = choose.choice(
                ("", " ", "null", "[]", f"[{text}]", '"x"', "1", f"{text}{text}", f" {text} x", f"{text}]")
            )
        payload = text.encode("utf-8", "surrogatepass")
        if choose.random() < 0.35:
            for _ in range(choose.randint(1, 3)):
                payload = self._mutated(payload)
        return payload

    def _mutated(self, payload: bytes) -> bytes:
        choose = self._random
        at = choose.randint(0, len(payload))
        kind = choose.random()
        if kind < 0.35:
            piece = choose.choice(_PIECES).encode() if choose.random() < 0.9 else choose.choice(_BYTES)
            return payload[:at] + piece + payload[at:]
        if kind < 0.6:
            return payload[:at] + payload[at + choose.randint(1, 3) :]
        if kind < 0.8:
            piece = choose.choice(_PIECES).encode() if choose.random() < 0.9 else choose.choice(_BYTES)
            return payload[:at] + piece + payload[at + 1 :]
        if kind < 0.9:
            end = choose.randint(at, len(payload))
            return payload[:at] + payload[at:end] * 2 + payload[end:]
        return payload[:at]

    def _space(self) -> str:
        return self._random.choice(_SPACES)

    def _object(self, kinds: list[tuple[str, pa.DataType]], wrong: float) -> str:
        choose = self._random
        fields = [kind for kind in kinds if choose.random() < 0.9]
        choose.shuffle(fields)
        pairs = [(name, self._value(kind, wrong)) for name, kind in fields]
        if choose.random() < 0.2:
            pairs.insert(choose.randint(0, len(pairs)), (choose.choice(_NAMES), self._any(0)))
        if pairs and choose.random() < 0.1:
            pairs.append((choose.choice(pairs)[0], self._any(1)))
        return self._joined(
            "{", [f"{self._name(name)}{self._space()}:{self._space()}{value}" for name, value in pairs], "}"
        )

    def _joined(self, start: str, items: list[str], end: str) -> str:
        return f"{start}{self._space()}{','.join(self._space() + item + self._space() for item in items)}{end}"

    def _name(self, name: str) -> str:
        return (
            self._quoted(name) if self._random.random() < 0.97 else f"'{name}'" if self._random.random() < 0.8 else name
        )

    def _quoted(self, text: str) -> str:
        choose = self._random
        if choose.random() < 0.03:
            return f"'{text}'"
        return json.dumps(text, ensure_ascii=choose.random() < 0.3)

    def _value(self, kind: pa.DataType, wrong: float) -> str:
        choose = self._random
        if choose.random() < 0.06:
            return "null"
        if choose.random() < wrong:
            return self._any(1)
        if pa.types.is_struct(kind):
            return self._object([(field.name, field.type) for field in kind], wrong)
        if pa.types.is_list(kind):
            return self._joined("[", [self._value(kind.value_type, wrong) for _ in range(choose.randint(0, 3))], "]")
        if pa.types.is_map(kind):
            names = [choose.choice(_NAMES) for _ in range(choose.randint(0, 3))]
            items = [f"{self._name(name)}:{self._value(kind.item_type, wrong)}" for name in names]
            return self._joined("{", items, "}")
        if pa.types.is_boolean(kind):
            return choose.choice(("true", "false"))
        if pa.types.is_integer(kind):
            return str(
                choose.randint(-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1) >> choose.randint(0, 60)
            )
        if pa.types.is_floating(kind):
            return choose.choice(
                (str(choose.randint(-99, 99)), f"{choose.uniform(-1e3, 1e3)}", f"{choose.gauss(0, 1):.3e}")
            )
        if pa.types.is_decimal(kind):
            number = f"{choose.randint(-99, 99)}.{choose.randint(0, 9999)}"
            return number if choose.random() < 0.7 else f'"{number}"'
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._quoted(choose.choice(_TIMES)) if choose.random() < 0.5 else self._quoted(self._time())
        return self._quoted(choose.choice(_TEXTS)) if choose.random() < 0.8 else self._any(0)

    def _time(self) -> str:
        choose = self._random
        day = f"{choose.randint(1, 2100):04}-{choose.randint(1, 12):02}-{choose.randint(1, 28):02}"
        if choose.random() < 0.3:
            return day
        fraction = choose.choice(("", ".5", f".{choose.randint(0, 999999):06}"))
        zone = choose.choice(("", "", "Z", "+01:00", "-05:30"))
        clock = f"{choose.randint(0, 23):02}:{choose.randint(0, 59):02}:{choose.randint(0, 59):02}"
        return f"{day}{choose.choice('T ')}{clock}{fraction}{zone}"

    def _any(self, depth: int) -> str:
        choose = self._random
        kind = choose.random()
        if kind < 0.3:
            return choose.choice(_NUMBERS)
        if kind < 0.55:
            return self._quoted(choose.choice(_TEXTS + _TIMES))
        if kind < 0.7:
            return choose.choice(("true", "false", "null", "True", "nul", "undefined"))
        if depth > 2:
            return choose.choice(("{}", "[]"))
        if kind < 0.85:
            return self._joined("[", [self._any(depth + 1) for _ in range(choose.randint(0, 3))], "]")
        names = [choose.choice(_NAMES) for _ in range(choose.randint(0, 3))]
        return self._joined("{", [f"{self._name(name)}:{self._any(depth + 1)}" for name in names], "}")
