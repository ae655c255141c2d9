"""Write a dict as a nats-server configuration file.

The server's format looks like JSON but is not: keys have no escapes, strings have only a few, numbers have no exponent
and must not touch a closing bracket, unquoted words may be variables or booleans. So all keys and strings are quoted,
and each value is on its own line. Values that the format cannot express are refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath

__all__ = ["dumps", "merge"]

_INT64 = range(-(2**63), 2**63)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')


def dumps(config: Mapping[str, object]) -> str:
    """Return `config` as the text of a configuration file.

    Values may be str, int, float, bool, `datetime.timedelta`, paths, and mappings and sequences of these. A duration
    may also be a string such as ``"2s"``; a size is an int, in bytes (the server accepts no quoted size). A string that
    begins with ``$`` is a plain string, never a variable.

    Raises:
        TypeError: a value of another type, None included.
        ValueError: a number or a key that the format cannot express.
    """
    return "".join(f"{_key(key)}: {_value(value, 0, key)}\n" for key, value in config.items())


def merge(base: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Return `base` overridden by `overrides`: mappings are merged, other values replace, and None removes the key."""
    merged = dict(base)
    for key, value in overrides.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _value(value: object, depth: int, where: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value, where)
        case PurePath():
            return _string(str(value), where)
        case int():
            if value not in _INT64:
                raise ValueError(f"config value {where}: {value} does not fit in 64 bits")
            return str(value)
        case float():
            return _float(value, where)
        case timedelta():
            # The server's durations have units down to the nanosecond; a timedelta is exact in microseconds.
            return _string(f"{value // timedelta(microseconds=1)}us", where)
        case Mapping():
            lines = (f"{_key(key)}: {_value(item, depth + 1, f'{where}.{key}')}" for key, item in value.items())
            return _block("{", lines, "}", depth)
        case Sequence() if not isinstance(value, (bytes, bytearray, memoryview)):
            return _block("[", (_value(item, depth + 1, f"{where}[{i}]") for i, item in enumerate(value)), "]", depth)
    raise TypeError(f"config value {where}: a {type(value).__name__} cannot be written to a server configuration")


def _block(opening: str, lines: Iterator[str], closing: str, depth: int) -> str:
    inner, outer = "  " * (depth + 1), "  " * depth
    return opening + "\n" + "".join(f"{inner}{line}\n" for line in lines) + outer + closing


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"config key {key!r}: keys are strings, not {type(key).__name__}")
    # A key ends at the next quote, as there are no escapes. For the server, a NUL is the end of the file.
    if "\0" in key or ('"' in key and "'" in key):
        raise ValueError(f"config key {key!r}: the format has no way to write a NUL, or both kinds of quotes, in a key")
    _check_encodable(key, repr(key))
    quote = "'" if '"' in key else '"'
    return f"{quote}{key}{quote}"


def _string(text: str, where: str) -> str:
    _check_encodable(text, where)
    return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPES.get(found[0], f"\\x{ord(found[0]):02x}"), text) + '"'


def _check_encodable(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"config value {where}: not valid Unicode ({error.reason})") from None


def _float(value: float, where: str) -> str:
    number = Decimal(repr(value))
    if not number.is_finite():
        raise ValueError(f"config value {where}: {value} is not a number that the format can express")
    text = format(number, "f")
    return text if "." in text else text + ".0"
