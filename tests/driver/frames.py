"""Frames of a client as a server reads them, and frames of a server as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ClientFrame",
    "Connect",
    "FrameReader",
    "Ping",
    "Pong",
    "Pub",
    "Sub",
    "Unsub",
    "header_block",
    "matches",
    "message",
]


@dataclass(frozen=True)
class Connect:
    """CONNECT."""

    options: dict[str, Any]
    at: float


@dataclass(frozen=True)
class Sub:
    """SUB."""

    subject: str
    queue: str
    sid: str
    at: float


@dataclass(frozen=True)
class Unsub:
    """UNSUB; `most` is 0 if it ends at once."""

    sid: str
    most: int
    at: float


@dataclass(frozen=True)
class Pub:
    """PUB or HPUB. `at` is the time of the test at which the server read it."""

    subject: str
    reply: str
    payload: bytes
    at: float
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        """The payload of a request to the API."""
        content: dict[str, Any] = json.loads(self.payload or b"{}")
        return content


@dataclass(frozen=True)
class Ping:
    """PING."""

    at: float


@dataclass(frozen=True)
class Pong:
    """PONG."""

    at: float


ClientFrame = Connect | Sub | Unsub | Pub | Ping | Pong


class FrameReader:
    """Reads the bytes of the client, split anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, at: float) -> Iterator[ClientFrame]:
        """Return the complete frames."""
        self._rest += data
        while (frame := self._next(at)) is not None:
            yield frame

    def _next(self, at: float) -> ClientFrame | None:
        line, end, rest = self._rest.partition(b"\r\n")
        if not end:
            return None
        verb, *words = line.decode("utf-8", "surrogateescape").split(" ")
        if verb in ("PUB", "HPUB"):
            size = int(words[-1])
            if len(rest) < size + 2:
                return None
            content, ending, self._rest = rest[:size], rest[size : size + 2], rest[size + 2 :]
            assert ending == b"\r\n", f"no line end after the payload of {line!r}"
            return _pub(words, int(words[-2]) if verb == "HPUB" else 0, content, at)
        self._rest = rest
        return _command(verb, words, line, at)


def _command(verb: str, words: list[str], line: bytes, at: float) -> ClientFrame:
    match verb, words:
        case "CONNECT", _:
            return Connect(json.loads(line.partition(b" ")[2]), at)
        case "SUB", [subject, sid]:
            return Sub(subject, "", sid, at)
        case "SUB", [subject, queue, sid]:
            return Sub(subject, queue, sid, at)
        case "UNSUB", [sid]:
            return Unsub(sid, 0, at)
        case "UNSUB", [sid, most]:
            return Unsub(sid, int(most), at)
        case "PING", []:
            return Ping(at)
        case "PONG", []:
            return Pong(at)
    raise AssertionError(f"the client says {line!r}")


def _pub(words: list[str], header_size: int, content: bytes, at: float) -> Pub:
    sizes = 2 if header_size else 1
    subject, *reply = words[:-sizes]
    lines = content[:header_size].decode("utf-8", "surrogateescape").split("\r\n")[1:]
    headers = {key: value.strip() for key, _, value in (line.partition(":") for line in lines if line)}
    return Pub(subject, reply[0] if reply else "", content[header_size:], at, headers)


def header_block(status: str = "", headers: Mapping[str, str] | None = None) -> bytes:
    """Return a header block. The status is a code, perhaps with a description."""
    first = f"NATS/1.0 {status}".rstrip()
    lines = [first, *(f"{key}: {value}" for key, value in (headers or {}).items())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def message(subject: str, sid: str, payload: bytes = b"", reply: str = "", header: bytes = b"") -> bytes:
    """Return MSG or, with a header block, HMSG."""
    words = [subject, sid, *([reply] if reply else [])]
    if header:
        words = ["HMSG", *words, str(len(header)), str(len(header) + len(payload))]
    else:
        words = ["MSG", *words, str(len(payload))]
    return " ".join(words).encode() + b"\r\n" + header + payload + b"\r\n"


def matches(pattern: str, subject: str) -> bool:
    """Return whether a subject matches a subject that may have wildcards."""
    wanted, given = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(given) > position
        if position >= len(given) or token not in ("*", given[position]):
            return False
    return len(wanted) == len(given)
