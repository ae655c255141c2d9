"""Requests about consumers. `pull` has the request for messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from jetspark.jetstream.api.base import (
    Request,
    check_answered,
    check_success,
    encode_fields,
    raise_error,
    read_reply,
    to_base_struct,
)
from jetspark.jetstream.api.paging import Page, PagedReply, PagedRequest
from jetspark.jetstream.codec import JsonEnum, encode
from jetspark.jetstream.config import ConsumerConfig, Placement
from jetspark.jetstream.errors import BadSubjectError, ConfigError, InvalidReplyError
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.jetstream.names import check_consumer_name, check_filter_subject, check_stream_name

__all__ = [
    "ConsumerAction",
    "ConsumerCreateRequest",
    "ConsumerDeleteRequest",
    "ConsumerInfoRequest",
    "ConsumerLeaderStepdownRequest",
    "ConsumerListRequest",
    "ConsumerNamesRequest",
    "ConsumerPauseRequest",
    "ConsumerResetRequest",
    "ConsumerUnpinRequest",
]


class ConsumerAction(JsonEnum):
    """Action of a CREATE request."""

    CREATE = "create"
    """Only create; ConsumerExistsError (10148) if the name exists with another configuration."""
    UPDATE = "update"
    """Only update; ConsumerDoesNotExistError (10149) if the name does not exist."""
    CREATE_OR_UPDATE = ""
    """Create or update."""


class _ConsumerReply(ConsumerInfo):
    type: str = ""


class _ResetReply(ConsumerReset):
    type: str = ""


class _PauseReply(ConsumerPause):
    type: str = ""


class _NamesReply(PagedReply):
    consumers: list[str] | None = None


class _ListReply(PagedReply):
    consumers: list[ConsumerInfo] | None = None


@dataclass(frozen=True, slots=True)
class _ConsumerEndpoint:
    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""

    def __post_init__(self) -> None:
        """Check the names."""
        check_stream_name(self.stream)
        check_consumer_name(self.consumer)


def _read_consumer(payload: bytes, where: str, stream: str, name: str | None) -> ConsumerInfo:
    info = to_base_struct(read_reply(_ConsumerReply, payload, where), ConsumerInfo)
    check_answered(where, "stream", info.stream_name, stream)
    if name is not None:
        check_answered(where, "consumer", info.name, name)
    else:
        try:
            check_consumer_name(info.name)
        except BadSubjectError as error:
            raise InvalidReplyError(f"{where}: the server chose a name that cannot be used: {error}") from None
    return info


@dataclass(frozen=True, slots=True)
class ConsumerCreateRequest(Request[ConsumerInfo]):
    """Create or update a consumer.

    A single filter is part of the subject, so that permissions can restrict reads. Without name and durable name, the
    server chooses a name.
    """

    stream: str
    """Name of the stream."""
    config: ConsumerConfig
    """Configuration of the consumer."""
    action: ConsumerAction = ConsumerAction.CREATE
    """Allowed action."""
    pedantic: bool = False
    """Whether the server refuses values that it would otherwise correct (10157)."""

    def __post_init__(self) -> None:
        """Check names and filters."""
        check_stream_name(self.stream)
        name, durable = self.config.name, self.config.durable_name
        for given in (name, durable):
            if given is not None:
                check_consumer_name(given)
        if name is not None and durable is not None and name != durable:
            raise ConfigError(f"consumer name {name!r} and durable name {durable!r} must be equal; give one of them")
        for subject in (self.config.filter_subject, *(self.config.filter_subjects or ())):
            if subject:
                check_filter_subject(subject)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        name = self.config.name or self.config.durable_name
        if name is None:
            return f"CONSUMER.CREATE.{self.stream}"
        if self.config.filter_subject and not self.config.filter_subjects:
            return f"CONSUMER.CREATE.{self.stream}.{name}.{self.config.filter_subject}"
        return f"CONSUMER.CREATE.{self.stream}.{name}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        fields: dict[str, object] = {"stream_name": self.stream, "config": self.config}
        if self.action:
            fields["action"] = self.action
        if self.pedantic:
            fields["pedantic"] = True
        return encode(fields)

    def read(self, payload: bytes) -> ConsumerInfo:
        """Read the reply: the current consumer, with its name also if the server chose it."""
        return _read_consumer(payload, self.endpoint, self.stream, self.config.name or self.config.durable_name)


@dataclass(frozen=True, slots=True)
class ConsumerInfoRequest(_ConsumerEndpoint, Request[ConsumerInfo]):
    """Get configuration and state of a consumer."""

    idempotent: ClassVar[bool] = True

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.INFO.{self.stream}.{self.consumer}"

    def read(self, payload: bytes) -> ConsumerInfo:
        """Read the reply. ConsumerNotFoundError (10014), StreamNotFoundError (10059)."""
        return _read_consumer(payload, self.endpoint, self.stream, self.consumer)


@dataclass(frozen=True, slots=True)
class ConsumerDeleteRequest(_ConsumerEndpoint, Request[None]):
    """Delete a consumer."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.DELETE.{self.stream}.{self.consumer}"

    def read(self, payload: bytes) -> None:
        """Read the reply. ConsumerNotFoundError (10014), StreamNotFoundError (10059)."""
        check_success(payload, self.endpoint)


@dataclass(frozen=True)
class ConsumerNamesRequest(PagedRequest[str]):
    """List the names of a stream's consumers, at most 1,024 per page."""

    stream: str
    """Name of the stream."""

    def __post_init__(self) -> None:
        """Check the name."""
        check_stream_name(self.stream)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.NAMES.{self.stream}"

    def payload(self) -> bytes:
        """Return the offset as JSON, nothing for the first page."""
        return encode_fields(offset=self.offset or None)

    def read(self, payload: bytes) -> Page[str]:
        """Read one page."""
        reply = read_reply(_NamesReply, payload, self.endpoint)
        return reply.page(reply.consumers)


@dataclass(frozen=True)
class ConsumerListRequest(PagedRequest[ConsumerInfo]):
    """List information on a stream's consumers, at most 256 per page."""

    stream: str
    """Name of the stream."""

    def __post_init__(self) -> None:
        """Check the name."""
        check_stream_name(self.stream)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.LIST.{self.stream}"

    def payload(self) -> bytes:
        """Return the offset as JSON, nothing for the first page."""
        return encode_fields(offset=self.offset or None)

    def read(self, payload: bytes) -> Page[ConsumerInfo]:
        """Read one page."""
        reply = read_reply(_ListReply, payload, self.endpoint)
        return reply.page(reply.consumers)


@dataclass(frozen=True, slots=True)
class ConsumerPauseRequest(_ConsumerEndpoint, Request[ConsumerPause]):
    """Pause a consumer until a time; without a time, or with a past one, resume it."""

    pause_until: datetime | None = None
    """End of the pause."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.PAUSE.{self.stream}.{self.consumer}"

    def payload(self) -> bytes:
        """Return the time as JSON."""
        return encode_fields(pause_until=self.pause_until) or b"{}"

    def read(self, payload: bytes) -> ConsumerPause:
        """Read the reply: whether it is paused now, and for how long."""
        return to_base_struct(read_reply(_PauseReply, payload, self.endpoint), ConsumerPause)


@dataclass(frozen=True, slots=True)
class ConsumerUnpinRequest(_ConsumerEndpoint, Request[None]):
    """Release the pinned client of a priority group (ADR-42)."""

    group: str = ""
    """Name of the group."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.UNPIN.{self.stream}.{self.consumer}"

    def payload(self) -> bytes:
        """Return the group as JSON."""
        return encode_fields(group=self.group)

    def read(self, payload: bytes) -> None:
        """Read the reply. InvalidPriorityGroupError (10160), ConsumerNotFoundError (10014)."""
        raise_error(payload, self.endpoint)


@dataclass(frozen=True, slots=True)
class ConsumerResetRequest(_ConsumerEndpoint, Request[ConsumerReset]):
    """Move a consumer back or forward to a sequence of the stream."""

    sequence: int | None = None
    """Sequence to continue at; the ack floor if unset."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.RESET.{self.stream}.{self.consumer}"

    def payload(self) -> bytes:
        """Return the sequence as JSON, empty if there is none."""
        return encode_fields(seq=self.sequence)

    def read(self, payload: bytes) -> ConsumerReset:
        """Read the reply: the current consumer, and the sequence."""
        return to_base_struct(read_reply(_ResetReply, payload, self.endpoint), ConsumerReset)


@dataclass(frozen=True, slots=True)
class ConsumerLeaderStepdownRequest(_ConsumerEndpoint, Request[None]):
    """Move the leadership of a consumer to another server of the cluster."""

    placement: Placement | None = None
    """Placement of the new leader."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.LEADER.STEPDOWN.{self.stream}.{self.consumer}"

    def payload(self) -> bytes:
        """Return the placement as JSON, empty if there is none."""
        return encode_fields(placement=self.placement)

    def read(self, payload: bytes) -> None:
        """Read the reply."""
        check_success(payload, self.endpoint)
