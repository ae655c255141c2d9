"""Requests about streams."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from jetspark.jetstream.api.base import (
    Request,
    check_answered,
    check_success,
    encode_fields,
    read_reply,
    to_base_struct,
)
from jetspark.jetstream.api.paging import Page, PagedReply, PagedRequest
from jetspark.jetstream.codec import encode, to_builtins
from jetspark.jetstream.config import Placement, StreamConfig
from jetspark.jetstream.errors import APIError, ConfigError, InvalidReplyError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.names import check_filter_subject, check_stream_name
from jetspark.wire.argument_types import checks_arguments

__all__ = [
    "StreamCreateRequest",
    "StreamDeleteRequest",
    "StreamInfoPage",
    "StreamInfoRequest",
    "StreamLeaderStepdownRequest",
    "StreamListRequest",
    "StreamNamesRequest",
    "StreamPurgeRequest",
    "StreamSubjectsRequest",
    "StreamUpdateRequest",
    "all_subjects",
]

T = TypeVar("T")

_STORE_FAILED: Final = (10049, "error creating store for stream")
_STORE_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds before each retry of a creation if the server could not create the stream's store."""
_NO_PEERS: Final = 10005
_PEER_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 0.8)
"""Seconds before each retry to place a stream: servers exchange their resources at most once a second."""


class _StreamReply(StreamInfo):
    type: str = ""
    did_create: bool = False
    total: int = 0
    offset: int = 0
    limit: int = 0


class _NamesReply(PagedReply):
    streams: list[str] | None = None


class _ListReply(PagedReply):
    streams: list[StreamInfo] | None = None


class _PurgeReply(PagedReply):
    success: bool = False
    purged: int = 0


def _checked(info: StreamInfo, where: str) -> StreamInfo:
    """Return the information on a stream. Raises InvalidReplyError if it is not the stream at the endpoint's end."""
    check_answered(where, "stream", info.config.name or "", where.rpartition(".")[2])
    return info


@dataclass(frozen=True, slots=True)
class _StreamConfigRequest(Request[StreamInfo]):
    config: StreamConfig
    """Configuration of the stream."""
    pedantic: bool = False
    """Whether the server refuses values that it would otherwise correct (10157)."""

    def __post_init__(self) -> None:
        """Check the name."""
        check_stream_name(self.config.name)

    def payload(self) -> bytes:
        """Return the configuration as JSON."""
        if not self.pedantic:
            return encode(self.config)
        fields = to_builtins(self.config)
        assert isinstance(fields, dict)
        return encode({**fields, "pedantic": True})

    def read(self, payload: bytes) -> StreamInfo:
        """Read the reply: the current stream."""
        return _checked(to_base_struct(read_reply(_StreamReply, payload, self.endpoint), StreamInfo), self.endpoint)

    def retry_delay(self, error: APIError, tries: int) -> float | None:
        """Return the seconds to wait before a retry; None if a retry does not help.

        In a cluster that has just started, the leader places no replica on a server that has not reported its resources
        yet, and answers 10005 with "peer offline". Nothing was changed, so the request can be sent again.
        """
        if error.err_code == _NO_PEERS and "offline" in error.description:
            return _pause(tries, _PEER_PAUSES)
        return None


@dataclass(frozen=True, slots=True)
class StreamCreateRequest(_StreamConfigRequest):
    """Create a stream. The same configuration again is not an error; another one is StreamNameInUseError (10058)."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.CREATE.{self.config.name}"

    def retry_delay(self, error: APIError, tries: int) -> float | None:
        """Return the seconds to wait before a retry; None if a retry does not help.

        nats-server removes directories of an account's last stream after it has confirmed its deletion. A store that is
        created at that moment may lose its directory, and the answer is 10049. Nothing was created, so the request can
        be sent again. The same holds if servers of the cluster are not known yet (10005).
        """
        if (error.err_code, error.description) == _STORE_FAILED:
            return _pause(tries, _STORE_PAUSES)
        return _StreamConfigRequest.retry_delay(self, error, tries)


@dataclass(frozen=True, slots=True)
class StreamUpdateRequest(_StreamConfigRequest):
    """Update a stream. The whole configuration is sent: unset fields get the server's default."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.UPDATE.{self.config.name}"


@dataclass(frozen=True, slots=True)
class StreamInfoRequest(Request[StreamInfo]):
    """Get configuration and state of a stream."""

    idempotent: ClassVar[bool] = True

    stream: str
    """Name of the stream."""
    deleted_details: bool = False
    """Whether to include the deleted sequences."""
    subjects_filter: str | None = None
    """Include the number of messages of each matching subject (the first page; `StreamSubjectsRequest` has all)."""

    def __post_init__(self) -> None:
        """Check name and filter."""
        check_stream_name(self.stream)
        if self.subjects_filter is not None:
            check_filter_subject(self.subjects_filter)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.INFO.{self.stream}"

    def payload(self) -> bytes:
        """Return the options as JSON, nothing when there are none."""
        return encode_fields(deleted_details=self.deleted_details, subjects_filter=self.subjects_filter)

    def read(self, payload: bytes) -> StreamInfo:
        """Read the reply. StreamNotFoundError (10059) when there is no such stream."""
        return _checked(to_base_struct(read_reply(_StreamReply, payload, self.endpoint), StreamInfo), self.endpoint)


@dataclass(frozen=True, slots=True)
class StreamInfoPage:
    """Information on a stream with one page of its subjects."""

    info: StreamInfo
    """The information; `info.state.subjects` is the page."""
    total: int
    """Number of matching subjects of all pages."""
    offset: int
    """Number of the page's first subject."""
    limit: int
    """Maximum number of subjects of a page."""


@dataclass(frozen=True, slots=True)
class StreamSubjectsRequest(Request[StreamInfoPage]):
    """Get one page of the number of messages by subject. `all_subjects` requests all pages."""

    idempotent: ClassVar[bool] = True

    stream: str
    """Name of the stream."""
    subjects_filter: str = ">"
    """Filter of the subjects."""
    deleted_details: bool = False
    """Whether to include the deleted sequences."""
    offset: int = 0
    """Number of the first subject to get, in alphabetical order."""

    def __post_init__(self) -> None:
        """Check name and filter."""
        check_stream_name(self.stream)
        check_filter_subject(self.subjects_filter)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.INFO.{self.stream}"

    def payload(self) -> bytes:
        """Return the options as JSON."""
        return encode_fields(
            deleted_details=self.deleted_details,
            subjects_filter=self.subjects_filter,
            offset=self.offset or None,
        )

    def read(self, payload: bytes) -> StreamInfoPage:
        """Read one page. StreamNotFoundError (10059) if there is no such stream."""
        reply = read_reply(_StreamReply, payload, self.endpoint)
        info = _checked(to_base_struct(reply, StreamInfo), self.endpoint)
        return StreamInfoPage(info, reply.total, reply.offset, reply.limit)


@checks_arguments()
def all_subjects(
    request: StreamSubjectsRequest,
) -> Generator[StreamSubjectsRequest, StreamInfoPage, StreamInfo]:
    """Yield the requests of all pages; the caller sends in each page. Return the information with all subjects.

    Raises InvalidReplyError if a page brings the list no further, although more subjects are said to follow.
    """
    subjects: dict[str, int] = {}
    while True:
        page = yield request
        known, found = len(subjects), page.info.state.subjects or {}
        subjects.update(found)
        following = request.offset + len(found)
        if following >= page.total:
            break
        if len(subjects) == known:
            raise InvalidReplyError(
                f"{request.endpoint}: the page from subject {request.offset} on has no new subjects, and the server "
                f"says that there are {page.total}"
            )
        request = replace(request, offset=following)
    page.info.state.subjects = subjects
    return page.info


@dataclass(frozen=True, slots=True)
class StreamDeleteRequest(Request[None]):
    """Delete a stream with its messages and consumers."""

    stream: str
    """Name of the stream."""

    def __post_init__(self) -> None:
        """Check the name."""
        check_stream_name(self.stream)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.DELETE.{self.stream}"

    def read(self, payload: bytes) -> None:
        """Read the reply. StreamNotFoundError (10059) when there is no such stream."""
        check_success(payload, self.endpoint)


@dataclass(frozen=True)
class _StreamsRequest(PagedRequest[T]):
    """Request about all streams, or those that capture a subject."""

    subject_filter: str | None = None
    """Only streams that capture a matching subject."""

    def __post_init__(self) -> None:
        """Check the filter."""
        if self.subject_filter is not None:
            check_filter_subject(self.subject_filter)

    def payload(self) -> bytes:
        """Return the options as JSON, nothing when there are none."""
        return encode_fields(offset=self.offset or None, subject=self.subject_filter)


@dataclass(frozen=True)
class StreamNamesRequest(_StreamsRequest[str]):
    """List the names of the streams, at most 1,024 per page."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return "STREAM.NAMES"

    def read(self, payload: bytes) -> Page[str]:
        """Read one page."""
        reply = read_reply(_NamesReply, payload, self.endpoint)
        return reply.page(reply.streams)


@dataclass(frozen=True)
class StreamListRequest(_StreamsRequest[StreamInfo]):
    """List information on the streams, at most 256 per page."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return "STREAM.LIST"

    def read(self, payload: bytes) -> Page[StreamInfo]:
        """Read one page."""
        reply = read_reply(_ListReply, payload, self.endpoint)
        return reply.page(reply.streams)


@dataclass(frozen=True, slots=True)
class StreamPurgeRequest(Request[int]):
    """Delete messages of a stream: all, or those of a filter; before a sequence, or all but the newest."""

    stream: str
    """Name of the stream."""
    filter: str | None = None
    """Only messages whose subject matches."""
    sequence: int | None = None
    """Only messages before that sequence."""
    keep: int | None = None
    """Number of newest messages to keep. Not together with `sequence`."""

    def __post_init__(self) -> None:
        """Check names and options."""
        check_stream_name(self.stream)
        if self.filter is not None:
            check_filter_subject(self.filter)
        if self.sequence is not None and self.keep is not None:
            raise ConfigError("purge takes sequence or keep, not both")
        if min(self.sequence or 0, self.keep or 0) < 0:
            raise ConfigError("sequence and keep of a purge must not be negative")

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.PURGE.{self.stream}"

    def payload(self) -> bytes:
        """Return the options as JSON, nothing when there are none."""
        return encode_fields(filter=self.filter, seq=self.sequence, keep=self.keep)

    def read(self, payload: bytes) -> int:
        """Read the reply: the number of deleted messages."""
        return read_reply(_PurgeReply, payload, self.endpoint).purged


@dataclass(frozen=True, slots=True)
class StreamLeaderStepdownRequest(Request[None]):
    """Move the leadership of a stream to another server of the cluster."""

    stream: str
    """Name of the stream."""
    placement: Placement | None = None
    """Placement of the new leader."""

    def __post_init__(self) -> None:
        """Check the name."""
        check_stream_name(self.stream)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.LEADER.STEPDOWN.{self.stream}"

    def payload(self) -> bytes:
        """Return the placement as JSON, empty if there is none."""
        return encode_fields(placement=self.placement)

    def read(self, payload: bytes) -> None:
        """Read the reply."""
        check_success(payload, self.endpoint)


def _pause(tries: int, pauses: Sequence[float]) -> float | None:
    return pauses[tries - 1] if tries <= len(pauses) else None
