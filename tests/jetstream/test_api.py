"""Requests as values: their subjects and payloads, and how replies and errors are decoded."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from jetspark.errors import (
    BadNameError,
    BadSubjectError,
    ConfigError,
    JetStreamNotEnabledError,
)
from jetspark.jetstream import (
    ConsumerConfig,
    Placement,
    StreamConfig,
)
from jetspark.jetstream.api import (
    AccountInfoRequest,
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
    MessageDeleteRequest,
    MessageGetRequest,
    PullRequest,
    Request,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamLeaderStepdownRequest,
    StreamListRequest,
    StreamNamesRequest,
    StreamPurgeRequest,
    StreamSubjectsRequest,
    StreamUpdateRequest,
)

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
FORMS: list[tuple[Request[object] | PullRequest, str, object]] = [
    (AccountInfoRequest(), "INFO", None),
    (StreamCreateRequest(StreamConfig(name="S", max_msgs=0)), "STREAM.CREATE.S", {"name": "S", "max_msgs": 0}),
    (
        StreamCreateRequest(StreamConfig(name="S"), pedantic=True),
        "STREAM.CREATE.S",
        {"name": "S", "pedantic": True},
    ),
    (StreamUpdateRequest(StreamConfig(name="S")), "STREAM.UPDATE.S", {"name": "S"}),
    (StreamInfoRequest("S"), "STREAM.INFO.S", None),
    (
        StreamInfoRequest("S", deleted_details=True, subjects_filter=">"),
        "STREAM.INFO.S",
        {"deleted_details": True, "subjects_filter": ">"},
    ),
    (StreamSubjectsRequest("S", offset=5), "STREAM.INFO.S", {"subjects_filter": ">", "offset": 5}),
    (StreamDeleteRequest("S"), "STREAM.DELETE.S", None),
    (StreamNamesRequest(), "STREAM.NAMES", None),
    (StreamNamesRequest("a.>", offset=1024), "STREAM.NAMES", {"subject": "a.>", "offset": 1024}),
    (StreamListRequest("a.>"), "STREAM.LIST", {"subject": "a.>"}),
    (StreamPurgeRequest("S"), "STREAM.PURGE.S", None),
    (StreamPurgeRequest("S", filter="a", keep=0), "STREAM.PURGE.S", {"filter": "a", "keep": 0}),
    (StreamPurgeRequest("S", sequence=7), "STREAM.PURGE.S", {"seq": 7}),
    (StreamLeaderStepdownRequest("S"), "STREAM.LEADER.STEPDOWN.S", None),
    (
        StreamLeaderStepdownRequest("S", Placement(preferred="n2")),
        "STREAM.LEADER.STEPDOWN.S",
        {"placement": {"preferred": "n2"}},
    ),
    (MessageGetRequest("S", sequence=3), "STREAM.MSG.GET.S", {"seq": 3}),
    (MessageGetRequest("S", last_by_subject="a.*"), "STREAM.MSG.GET.S", {"last_by_subj": "a.*"}),
    (MessageGetRequest("S", next_by_subject="a", sequence=3), "STREAM.MSG.GET.S", {"next_by_subj": "a", "seq": 3}),
    (
        MessageGetRequest("S", start_time=NOON, no_headers=True),
        "STREAM.MSG.GET.S",
        {"start_time": "2030-01-02T12:00:00Z", "no_hdr": True},
    ),
    (MessageDeleteRequest("S", 3), "STREAM.MSG.DELETE.S", {"seq": 3, "no_erase": True}),
    (MessageDeleteRequest("S", 3, secure=True), "STREAM.MSG.DELETE.S", {"seq": 3}),
    (
        ConsumerCreateRequest("S", ConsumerConfig(name="c", filter_subject="a.>")),
        "CONSUMER.CREATE.S.c.a.>",
        {"stream_name": "S", "config": {"name": "c", "filter_subject": "a.>"}, "action": "create"},
    ),
    (
        ConsumerCreateRequest("S", ConsumerConfig(durable_name="d", filter_subjects=["a", "b"]), ConsumerAction.UPDATE),
        "CONSUMER.CREATE.S.d",
        {"stream_name": "S", "config": {"durable_name": "d", "filter_subjects": ["a", "b"]}, "action": "update"},
    ),
    (
        ConsumerCreateRequest("S", ConsumerConfig(), ConsumerAction.CREATE_OR_UPDATE, pedantic=True),
        "CONSUMER.CREATE.S",
        {"stream_name": "S", "config": {}, "pedantic": True},
    ),
    (ConsumerInfoRequest("S", "c"), "CONSUMER.INFO.S.c", None),
    (ConsumerDeleteRequest("S", "c"), "CONSUMER.DELETE.S.c", None),
    (ConsumerNamesRequest("S", offset=3), "CONSUMER.NAMES.S", {"offset": 3}),
    (ConsumerListRequest("S"), "CONSUMER.LIST.S", None),
    (ConsumerPauseRequest("S", "c", NOON), "CONSUMER.PAUSE.S.c", {"pause_until": "2030-01-02T12:00:00Z"}),
    (ConsumerPauseRequest("S", "c"), "CONSUMER.PAUSE.S.c", {}),
    (ConsumerUnpinRequest("S", "c", "g"), "CONSUMER.UNPIN.S.c", {"group": "g"}),
    (ConsumerResetRequest("S", "c", 9), "CONSUMER.RESET.S.c", {"seq": 9}),
    (ConsumerLeaderStepdownRequest("S", "c"), "CONSUMER.LEADER.STEPDOWN.S.c", None),
    (PullRequest("S", "c"), "CONSUMER.MSG.NEXT.S.c", {"batch": 1}),
    (
        PullRequest(
            "S",
            "c",
            10,
            timedelta(seconds=3),
            no_wait=True,
            max_bytes=1000,
            idle_heartbeat=timedelta(seconds=1.5),
            group="g",
            min_pending=4,
            min_ack_pending=5,
            id="pin",
            priority=0,
        ),
        "CONSUMER.MSG.NEXT.S.c",
        {
            "batch": 10,
            "expires": 3_000_000_000,
            "no_wait": True,
            "max_bytes": 1000,
            "idle_heartbeat": 1_500_000_000,
            "group": "g",
            "min_pending": 4,
            "min_ack_pending": 5,
            "id": "pin",
            "priority": 0,
        },
    ),
]


@pytest.mark.parametrize(("request_", "endpoint", "fields"), FORMS, ids=lambda value: type(value).__name__)
def test_requests_have_the_documented_subject_and_payload(
    request_: Request[object], endpoint: str, fields: object
) -> None:
    assert request_.subject() == f"$JS.API.{endpoint}"
    assert request_.subject("imported.") == f"imported.{endpoint}"
    payload = request_.payload()
    assert (json.loads(payload) if payload else None) == fields


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StreamPurgeRequest("S", sequence=1, keep=1), "not both"),
        (lambda: StreamPurgeRequest("S", keep=-1), "negative"),
        (lambda: MessageGetRequest("S"), "given: none"),
        (lambda: MessageGetRequest("S", sequence=1, last_by_subject="a"), "sequence and last_by_subject"),
        (
            lambda: MessageGetRequest("S", last_by_subject="a", next_by_subject="a"),
            "last_by_subject and next_by_subject",
        ),
        (lambda: MessageGetRequest("S", sequence=1, start_time=NOON), "sequence and start_time"),
        (lambda: MessageGetRequest("S", sequence=0), "start at 1"),
        (lambda: MessageDeleteRequest("S", 0), "start at 1"),
        (lambda: ConsumerCreateRequest("S", ConsumerConfig(name="a", durable_name="b")), "equal"),
        (lambda: PullRequest("S", "c", 0), "at least 1"),
        (lambda: PullRequest("S", "c", max_bytes=0), "positive"),
        (lambda: PullRequest("S", "c", priority=10), "0 to 9"),
        (lambda: PullRequest("S", "c", idle_heartbeat=timedelta(seconds=1)), "no expires"),
        (
            lambda: PullRequest("S", "c", expires=timedelta(seconds=1), idle_heartbeat=timedelta(seconds=0.51)),
            "idle_heartbeat 510ms of a pull must be at most half of its expires; the pull has expires 1s",
        ),
    ],
)
def test_invalid_requests_are_refused_before_anything_is_sent(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamInfoRequest("S", subjects_filter="a b"),
        lambda: StreamNamesRequest("a..b"),
        lambda: StreamPurgeRequest("S", filter=">.a"),
        lambda: MessageGetRequest("S", last_by_subject="a "),
        lambda: ConsumerCreateRequest("S", ConsumerConfig(filter_subject="a\r\nPUB x 0")),
        lambda: ConsumerCreateRequest("S", ConsumerConfig(filter_subjects=["a", ".b"])),
    ],
)
def test_impossible_subjects_are_refused_before_anything_is_sent(make: Callable[[], object]) -> None:
    with pytest.raises(BadSubjectError):
        make()


@pytest.mark.parametrize("config", [ConsumerConfig(name="a.b"), ConsumerConfig(durable_name="a.b")])
def test_an_impossible_consumer_name_is_refused_before_anything_is_sent(config: ConsumerConfig) -> None:
    with pytest.raises(BadNameError, match=r"consumer name 'a\.b' has '\.'"):
        ConsumerCreateRequest("S", config)


REQUESTS = {type(request): request for request, _, _ in FORMS if isinstance(request, Request)}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=[cls.__name__ for cls in REQUESTS])
def test_every_request_raises_the_error_of_its_reply(request_: Request[object]) -> None:
    reply = b'{"error":{"code":503,"err_code":10076,"description":"not enabled"}}'
    with pytest.raises(JetStreamNotEnabledError, match=re.escape(request_.endpoint)):
        request_.read(reply)
