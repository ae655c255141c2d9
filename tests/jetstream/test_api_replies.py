"""Replies of the JetStream API: errors, texts that cannot be read, and the answers of a real server."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.errors import (
    APIError,
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
    ConsumerNamesRequest,
    ConsumerPauseRequest,
    ConsumerResetRequest,
    ConsumerUnpinRequest,
    MessageDeleteRequest,
    MessageGetRequest,
    PullRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
    StreamUpdateRequest,
)
from jetspark.server import NatsServer

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


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
