"""A request of the JetStream API as a value: its subject, its payload, and the reader of its reply.

Nothing here sends anything. A front creates a request, publishes `payload()` to `subject(prefix)` and passes the
payload of the reply to `read()`, which returns a typed value or raises the server's error. So the asyncio and the
blocking front share the whole API, and tests need no socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from jetspark.jetstream.codec import JsonStruct, decode, encode
from jetspark.jetstream.errors import (
    APIError,
    Error,
    InvalidReplyError,
    JetStreamNotEnabledError,
    StatusError,
    api_error,
)
from jetspark.jetstream.names import API_PREFIX
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.checked_fields import ChecksFields
from jetspark.wire.untrusted import decode_json, quote

__all__ = [
    "Done",
    "Request",
    "check_answered",
    "check_success",
    "encode_fields",
    "raise_error",
    "read_reply",
    "to_base_struct",
]

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S", bound=JsonStruct)

_NO_RESPONDERS: Final = 503
_TEMPORARILY_UNAVAILABLE: Final = 10008
_ELECTION_PAUSE: Final = 0.1
"""Seconds before a request is sent again if there is no leader."""


@checks_arguments()
class Request(ChecksFields, ABC, Generic[R_co]):
    """One request. Subclasses are frozen dataclasses; constructors check types, names and options (ConfigError)."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the methods of a subclass check the types of their arguments."""
        super().__init_subclass__(**options)
        checks_arguments()(cls)

    idempotent: ClassVar[bool] = False
    """Whether it only reads, so that it may be sent again if its reply is lost."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The subject without the API's prefix."""

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to; `prefix` ends with a dot (`jetspark.jetstream.names.api_prefix`)."""
        return prefix + self.endpoint

    def payload(self) -> bytes:
        """Return the payload to publish."""
        return b""

    @abstractmethod
    def read(self, payload: bytes) -> R_co:
        """Read the reply's payload.

        Raises APIError if the server reports an error, InvalidReplyError if the reply cannot be read.
        """

    def retry_delay(self, error: APIError, tries: int) -> float | None:  # noqa: ARG002 (for those that give up)
        """Return the seconds to wait before a retry after a temporary error; None if a retry does not help.

        Parameters
        ----------
        error
            The server's error.
        tries
            How often the request was sent.
        """
        if self.idempotent and error.err_code == _TEMPORARILY_UNAVAILABLE:
            return _ELECTION_PAUSE
        return None

    def status_error(self, code: int, description: str = "") -> Error:
        """Return the error for a reply that is a status message; 503 means that no server answers this API."""
        if code == _NO_RESPONDERS:
            text = (
                "no server answers the JetStream API: JetStream is not enabled on the server (nats-server -js) "
                "or for the account, or the domain or API prefix is wrong"
            )
            return JetStreamNotEnabledError(code, 0, text, where=self.endpoint)
        return StatusError(code, description, where=self.endpoint)


# Reads only the error of a reply: unlike the other structs of this package, these two ignore unknown fields.
class _ErrorBody(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Envelope(msgspec.Struct):
    error: _ErrorBody | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope)


class Done(JsonStruct):
    """Reply that only says whether the request succeeded."""

    type: str = ""
    success: bool = False


def raise_error(payload: bytes, where: str) -> None:
    """Raise the APIError that a reply reports, if there is one.

    A request failed if and only if its reply has `error` at the top level. A text that begins with `-ERR` is an error
    too.
    """
    if payload.startswith(b"-ERR"):
        raise api_error(500, 0, payload[4:].decode("utf-8", "replace").strip(" '\r\n"), where=where)
    if b'"error"' not in payload:
        return
    try:
        error = decode_json(_envelope, payload).error
    except msgspec.DecodeError as problem:
        raise _unreadable(payload, where, problem) from None
    if error is not None:
        raise api_error(error.code, error.err_code, error.description, where=where)


def read_reply(cls: type[S], payload: bytes, where: str) -> S:
    """Read a reply into a struct. Raises APIError or InvalidReplyError."""
    raise_error(payload, where)
    try:
        return decode(cls, payload)
    except msgspec.DecodeError as problem:
        raise _unreadable(payload, where, problem) from None


def check_success(payload: bytes, where: str) -> None:
    """Read a reply that only says whether the request succeeded. Raises APIError or InvalidReplyError."""
    if not read_reply(Done, payload, where).success:
        raise InvalidReplyError(f"{where}: the server reported neither success nor an error: {quote(payload)}")


def check_answered(where: str, kind: str, answered: str, asked: str) -> None:
    """Raise InvalidReplyError if a reply is about another stream or consumer than the request.

    The names in a reply become parts of later requests, so the sender of the answer must not choose them.
    """
    if answered != asked:
        raise InvalidReplyError(f"{where}: the reply is about the {kind} {answered[:200]!r}, not {asked!r}")


def to_base_struct(reply: JsonStruct, cls: type[S]) -> S:
    """Return the part of a reply that `cls`, one of its base classes, describes, without the other fields."""
    return cls(**{name: getattr(reply, name) for name in cls.__struct_fields__})


def encode_fields(**fields: object) -> bytes:
    """Write the fields of a request that are neither None nor False; without such fields the payload is empty."""
    present = {key: value for key, value in fields.items() if value is not None and value is not False}
    return encode(present) if present else b""


def _unreadable(payload: bytes, where: str, problem: Exception) -> InvalidReplyError:
    return InvalidReplyError(f"{where}: cannot read the server's reply ({problem}): {quote(payload)}")
