"""Header block of a message (ADR-4): a version line, an optional inline status, key and value lines.

    NATS/1.0 404 No Messages\\r\\n      version line with a status: code and description are optional
    Key: value\\r\\n                    keys keep their case and may repeat; blanks around the value are cut
    \\r\\n

Received headers are read leniently, line by line: a line that cannot be read is left out and does not end the
connection. Headers to send are checked strictly, before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from jetspark.wire.errors import BadHeadersError
from jetspark.wire.untrusted import parse_number

__all__ = ["Headers", "HeadersLike", "Status", "encode_header_block", "parse_header_block", "parse_status"]

VERSION: Final = b"NATS/1.0"
EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"
KEY_RULE: Final = "a key is one or more of the ASCII characters 33 to 126 without ':'"
VALUE_RULE: Final = "CR and LF are not allowed in a value"

_KEY: Final = re.compile(r"[!-9;-~]+")  # ASCII 33 to 126 without the colon
_MAX_CACHED_KEYS: Final = 1024
_key_cache: Final[dict[str, bytes]] = {}


class Status:
    """Inline status of a header block.

    Attributes
    ----------
    code
        Three-digit code.
    description
        Text that follows the code, empty if there is none.
    """

    __slots__ = ("code", "description")

    def __init__(self, code: int, description: str = "") -> None:
        self.code = code
        self.description = description

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.description) == (other.code, other.description)

    def __hash__(self) -> int:
        return hash((self.code, self.description))

    def __repr__(self) -> str:
        return f"Status({self.code}, {self.description!r})"


class Headers:
    """Ordered multi-map of header keys and values: case-sensitive, case-preserving (WIR-04).

    `headers["Key"]` and `get` give the first value, `get_all` gives all of them, iteration gives the keys in order of
    their first appearance.
    """

    __slots__ = ("_values",)

    def __init__(self, pairs: HeadersLike = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for key, value in _pairs(pairs):
            self.add(key, value)

    def __getitem__(self, key: str) -> str:
        return self._values[key][0]

    def __setitem__(self, key: str, value: str) -> None:
        self._values[key] = [value]

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self._values == other._values
        if isinstance(other, Mapping):
            return self._values == Headers(other)._values
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, as a dict is

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"

    def add(self, key: str, value: str) -> None:
        """Append a value to the values of the key."""
        self._values.setdefault(key, []).append(value)

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the first value of the key, or the default."""
        values = self._values.get(key)
        return values[0] if values else default

    def get_all(self, key: str) -> list[str]:
        """Return all values of the key in order; an empty list if there is none."""
        return list(self._values.get(key, ()))

    def pop_last(self, key: str) -> str | None:
        """Remove the last value of the key and return it; None if there is none."""
        values = self._values.get(key)
        if values is None:
            return None
        if len(values) == 1:
            del self._values[key]
        return values.pop()

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield every key and value as a pair; a key with several values appears once for each."""
        for key, values in self._values.items():
            for value in values:
                yield key, value

    def to_dict(self) -> dict[str, list[str]]:
        """Return a plain dict of key to list of values."""
        return {key: list(values) for key, values in self._values.items()}

    def copy(self) -> Headers:
        """Return an independent copy."""
        copied = Headers()
        copied._values = self.to_dict()
        return copied


HeadersLike = Headers | Mapping[str, str | Sequence[str]] | Iterable[tuple[str, str]]
"""Types that a `headers` parameter accepts."""


def _pairs(headers: HeadersLike) -> Iterator[tuple[str, str]]:
    if isinstance(headers, Headers):
        yield from headers.items()
    elif isinstance(headers, Mapping):
        for key, value in headers.items():
            if isinstance(value, str):
                yield key, value
            else:
                for one in value:
                    yield key, one
    else:
        yield from headers


def encode_header_block(headers: HeadersLike) -> bytes:
    """Return the header block to send.

    Raises
    ------
    BadHeadersError
        A key is empty or has a character other than ASCII 33 to 126 without the colon; a value has CR or LF (WIR-05)
        or cannot be encoded as UTF-8.
    """
    parts = [VERSION]
    for key, value in _pairs(headers):
        name = _key_cache.get(key) or _encode_key(key)
        if "\n" in value or "\r" in value:
            raise BadHeadersError(f"header {key!r}: {VALUE_RULE}")
        try:
            parts += (name, value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError as error:
            raise BadHeadersError(
                f"header {key!r}: the value contains a lone surrogate, which UTF-8 cannot encode"
            ) from error
    parts.append(b"\r\n\r\n")
    return b"".join(parts)


def _encode_key(key: str) -> bytes:
    """Return the bytes before the value of a key. Checked keys are kept in a cache of limited size."""
    if not _KEY.fullmatch(key):
        raise BadHeadersError(f"header {key!r}: {KEY_RULE}")
    if len(_key_cache) >= _MAX_CACHED_KEYS:
        _key_cache.clear()
    return _key_cache.setdefault(key, f"\r\n{key}: ".encode())


def parse_status(block: bytes | memoryview) -> Status | None:
    """Return the inline status of a header block; None if the version line has none (WIR-03)."""
    line = bytes(block).split(b"\r\n", 1)[0]
    if not line.startswith(VERSION):
        return None
    rest = line[len(VERSION) :].strip()
    code = rest[:3]
    number = parse_number(code)
    if len(code) != 3 or number is None or rest[3:4].strip():
        return None
    return Status(number, rest[3:].strip().decode("utf-8", "replace"))


def parse_header_block(block: bytes | memoryview) -> Headers:
    """Return the headers of a header block.

    Lines without a colon, or with nothing before it, are left out. Bytes that are not UTF-8 are kept as surrogates
    (`surrogateescape`), so that `encode` writes them unchanged.
    """
    headers = Headers()
    for line in bytes(block).split(b"\r\n")[1:]:
        key, colon, value = line.partition(b":")
        if colon and key:
            headers.add(
                key.decode("utf-8", "surrogateescape"),
                value.strip(b" \t").decode("utf-8", "surrogateescape"),
            )
    return headers
