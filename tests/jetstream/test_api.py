"""Requests as values: their subjects and payloads, and how replies and errors are decoded."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.errors import (
    APIError,
    BadNameError,
    BadSubjectError,
    ConfigError,
    ConsumerDoesNotExistError,
    ConsumerExistsError,
    ConsumerNotFoundError,
    InvalidPriorityGroupError,
    InvalidReplyError,
    JetStreamNotEnabledError,
    MessageNotFoundError,
    StatusError,
    StreamConfigError,
    StreamNameInUseError,
    StreamNotFoundError,
)
from jetspark.jetstream import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    Placement,
    PriorityPolicy,
    StreamConfig,
    StreamInfo,
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
from jetspark.server import NatsServer

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


@pytest.mark.conformance("WIR-10")
def test_an_error_has_its_class_by_number_and_its_text_has_all_three_parts(client: RawClient) -> None:
    with pytest.raises(StreamNotFoundError) as caught:
        client.request(StreamInfoRequest("MISSING"))
    assert (caught.value.code, caught.value.err_code, caught.value.description) == (404, 10059, "stream not found")
    assert str(caught.value).startswith("STREAM.INFO.MISSING: stream not found (10059/404); create the stream first")


@pytest.mark.conformance("WIR-10")
def test_a_reply_failed_only_if_it_has_an_error_at_its_top_level() -> None:
    nested = (
        b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"S","description":"\\"error\\""},'
        b'"created":"2024-01-01T00:00:00Z","mirror":{"name":"O","error":{"code":404,"err_code":10059}}}'
    )
    info = StreamInfoRequest("S").read(nested)
    assert info.mirror is not None
    assert info.mirror.error is not None
    assert info.mirror.error.err_code == 10059
    with pytest.raises(ConsumerNotFoundError):
        StreamInfoRequest("S").read(b'{"error":{"code":500,"err_code":10014,"description":"stream not found"}}')
    with pytest.raises(APIError) as caught:
        StreamInfoRequest("S").read(b'{"error":{"code":500,"news":true},"config":null}')
    assert (caught.value.code, caught.value.err_code, caught.value.description) == (500, 0, "")


@pytest.mark.conformance("WIR-10")
def test_a_text_reply_can_be_an_error_too() -> None:
    with pytest.raises(APIError) as caught:
        StreamInfoRequest("S").read(b"-ERR 'something old'\r\n")
    assert caught.value.description == "something old"


@pytest.mark.parametrize("payload", [b"", b"+OK", b"[]", b'{"config":3}', b'{"error":3}', b"{}", b"\xff" * 300])
def test_an_unreadable_reply_has_its_own_error(payload: bytes) -> None:
    with pytest.raises(InvalidReplyError) as caught:
        StreamInfoRequest("S").read(payload)
    assert str(caught.value).startswith("STREAM.INFO.S: cannot read the server's reply")
    assert len(str(caught.value)) < 1200


REQUESTS = {type(request): request for request, _, _ in FORMS if isinstance(request, Request)}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=[cls.__name__ for cls in REQUESTS])
def test_every_request_raises_the_error_of_its_reply(request_: Request[object]) -> None:
    reply = b'{"error":{"code":503,"err_code":10076,"description":"not enabled"}}'
    with pytest.raises(JetStreamNotEnabledError, match=re.escape(request_.endpoint)):
        request_.read(reply)


def test_a_long_unreadable_reply_is_shown_in_part() -> None:
    for count, end in ((200, "x'"), (201, "x'...")):
        with pytest.raises(InvalidReplyError) as caught:
            StreamDeleteRequest("S").read(b"x" * count)
        assert str(caught.value).endswith(f": b'{'x' * 199}{end}")


def test_a_reply_without_success_is_an_error() -> None:
    with pytest.raises(InvalidReplyError, match="neither success nor"):
        StreamDeleteRequest("S").read(b'{"type":"t","success":false}')


def test_a_server_without_jetstream_is_distinguished_from_silence() -> None:
    with NatsServer(jetstream=False) as server, RawClient(server) as client:
        with pytest.raises(JetStreamNotEnabledError) as caught:
            client.request(AccountInfoRequest())
        assert caught.value.code == 503
        assert str(caught.value) == (
            "INFO: no server answers the JetStream API: JetStream is not enabled on the server (nats-server -js) "
            "or for the account, or the domain or API prefix is wrong (503)"
        )


def test_requests_about_a_stream_work_on_the_real_server(client: RawClient) -> None:
    created = client.request(StreamCreateRequest(StreamConfig(name="API", subjects=["api.>"])))
    try:
        with pytest.raises(StreamNameInUseError):
            client.request(StreamCreateRequest(StreamConfig(name="API", subjects=["api.other"])))
        with pytest.raises(StreamConfigError):
            client.request(StreamUpdateRequest(created.config.replace(storage="memory")))
        with pytest.raises(StreamNotFoundError):
            client.request(StreamUpdateRequest(StreamConfig(name="MISSING")))
        updated = client.request(StreamUpdateRequest(created.config.replace(max_msgs=100)))
        assert updated.config.max_msgs == 100
        for number in range(6):
            client.ask(f"api.{number % 3}", b"%d" % number, [("Number", str(number))])
        message = client.request(MessageGetRequest("API", last_by_subject="api.1"))
        assert (message.stream, message.subject, message.sequence, message.payload) == ("API", "api.1", 5, b"4")
        assert message.headers.to_dict() == {"Number": ["4"]}
        bare = client.request(MessageGetRequest("API", next_by_subject="api.*", sequence=2, no_headers=True))
        assert (bare.sequence, len(bare.headers)) == (2, 0)
        at = client.request(MessageGetRequest("API", start_time=message.timestamp))
        assert at.sequence == 5
        client.request(MessageDeleteRequest("API", 2))
        client.request(MessageDeleteRequest("API", 3, secure=True))
        with pytest.raises(MessageNotFoundError):
            client.request(MessageDeleteRequest("API", 2))
        with pytest.raises(MessageNotFoundError):
            client.request(MessageGetRequest("API", sequence=2))
        info = client.request(StreamInfoRequest("API", deleted_details=True, subjects_filter="api.0"))
        assert (info.state.deleted, info.state.num_deleted) == ([2, 3], 2)
        assert info.state.subjects == {"api.0": 2}
        assert info.state.last_ts == client.request(MessageGetRequest("API", sequence=6)).timestamp
        assert client.request(StreamPurgeRequest("API", filter="api.0", keep=1)) == 1
        assert client.request(StreamPurgeRequest("API", sequence=6)) == 2
        assert client.request(StreamPurgeRequest("API")) == 1
        assert client.request(StreamInfoRequest("API")).state.first_sequence == 7
    finally:
        client.request(StreamDeleteRequest("API"))


def test_requests_about_a_consumer_work_on_the_real_server(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="CONS", subjects=["cons.>"])))
    try:
        config = ConsumerConfig(name="c", durable_name="c", ack_policy=AckPolicy.EXPLICIT, filter_subject="cons.>")
        created = client.request(ConsumerCreateRequest("CONS", config))
        assert client.request(ConsumerCreateRequest("CONS", config)).created == created.created
        other = config.replace(max_deliver=3)
        with pytest.raises(ConsumerExistsError):
            client.request(ConsumerCreateRequest("CONS", other))
        changed = client.request(ConsumerCreateRequest("CONS", other, ConsumerAction.UPDATE))
        assert changed.config.max_deliver == 3
        with pytest.raises(ConsumerDoesNotExistError):
            client.request(ConsumerCreateRequest("CONS", ConsumerConfig(name="x"), ConsumerAction.UPDATE))
        made = client.request(
            ConsumerCreateRequest("CONS", ConsumerConfig(ack_policy=AckPolicy.NONE), ConsumerAction.CREATE_OR_UPDATE)
        )
        assert made.name
        assert sorted(client.request(ConsumerNamesRequest("CONS")).items) == sorted(["c", made.name])
        paused = client.request(ConsumerPauseRequest("CONS", "c", NOON))
        assert paused.paused
        assert paused.pause_until == NOON
        assert paused.pause_remaining > timedelta(days=1)
        assert client.request(ConsumerInfoRequest("CONS", "c")).paused
        resumed = client.request(ConsumerPauseRequest("CONS", "c"))
        assert (resumed.paused, resumed.pause_until) == (False, None)
        for _ in range(3):
            client.ask("cons.a")
        assert client.request(ConsumerResetRequest("CONS", "c", 2)).num_pending == 2
        client.request(ConsumerDeleteRequest("CONS", "c"))
        with pytest.raises(ConsumerNotFoundError):
            client.request(ConsumerInfoRequest("CONS", "c"))
        with pytest.raises(ConsumerNotFoundError):
            client.request(ConsumerDeleteRequest("CONS", "c"))
    finally:
        client.request(StreamDeleteRequest("CONS"))


def test_infos_are_plain_values(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="PLAIN", subjects=["plain"])))
    try:
        assert type(client.request(StreamInfoRequest("PLAIN"))) is StreamInfo
        created = client.request(ConsumerCreateRequest("PLAIN", ConsumerConfig(name="c")))
        assert type(created) is ConsumerInfo
        assert created.config == client.request(ConsumerInfoRequest("PLAIN", "c")).config
    finally:
        client.request(StreamDeleteRequest("PLAIN"))


def test_a_pinned_client_is_released_on_the_real_server(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="PIN", subjects=["pin"])))
    try:
        config = ConsumerConfig(
            name="c",
            ack_policy=AckPolicy.EXPLICIT,
            priority_groups=["g"],
            priority_policy=PriorityPolicy.PINNED_CLIENT,
        )
        client.request(ConsumerCreateRequest("PIN", config))
        client.ask("pin", b"x")
        pull = PullRequest("PIN", "c", group="g")
        pinned = client.ask(pull.subject(), pull.payload())
        state = client.request(ConsumerInfoRequest("PIN", "c")).priority_groups
        assert state is not None
        assert state[0].pinned_client_id == pinned.headers["Nats-Pin-Id"]
        assert state[0].pinned_ts is not None
        client.request(ConsumerUnpinRequest("PIN", "c", "g"))
        released = client.request(ConsumerInfoRequest("PIN", "c")).priority_groups
        assert released is not None
        assert (released[0].pinned_client_id, released[0].pinned_ts) == ("", None)
        assert list(unknown_fields(state + released)) == []
        with pytest.raises(InvalidPriorityGroupError):
            client.request(ConsumerUnpinRequest("PIN", "c", "h"))
    finally:
        client.request(StreamDeleteRequest("PIN"))


def test_a_status_other_than_503_is_an_error_with_its_code() -> None:
    error = StreamInfoRequest("S").status_error(412, "Required Api Level")
    assert isinstance(error, StatusError)
    assert str(error) == "STREAM.INFO.S: status 412 Required Api Level"


def test_a_reply_without_the_message_is_an_error() -> None:
    with pytest.raises(InvalidReplyError, match="has no message"):
        MessageGetRequest("S", sequence=1).read(b'{"type":"t"}')
