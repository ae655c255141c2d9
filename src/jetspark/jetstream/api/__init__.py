"""The JetStream API as values: one class for each request, with the names of the server's API."""

from jetspark.jetstream.api.account import AccountInfoRequest
from jetspark.jetstream.api.base import Request
from jetspark.jetstream.api.consumers import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    ConsumerLeaderStepdownRequest,
    ConsumerListRequest,
    ConsumerNamesRequest,
    ConsumerPauseRequest,
    ConsumerResetRequest,
    ConsumerUnpinRequest,
)
from jetspark.jetstream.api.messages import MessageDeleteRequest, MessageGetRequest
from jetspark.jetstream.api.paging import Page, PagedRequest, collect, next_request, pages
from jetspark.jetstream.api.pull import PullRequest
from jetspark.jetstream.api.streams import (
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoPage,
    StreamInfoRequest,
    StreamLeaderStepdownRequest,
    StreamListRequest,
    StreamNamesRequest,
    StreamPurgeRequest,
    StreamSubjectsRequest,
    StreamUpdateRequest,
    all_subjects,
)

__all__ = [
    "AccountInfoRequest",
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
    "MessageDeleteRequest",
    "MessageGetRequest",
    "Page",
    "PagedRequest",
    "PullRequest",
    "Request",
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
    "collect",
    "next_request",
    "pages",
]
