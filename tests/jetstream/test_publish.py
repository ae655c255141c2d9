"""Headers of a publish and its acknowledgement, on the real server."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.errors import (
    APIError,
    AtomicPublishDisabledError,
    BadSubjectError,
    ConfigError,
    DuplicateInBatchError,
    IncompleteBatchError,
    InvalidAckError,
    MessageSizeExceedsMaximumError,
    MessageTTLDisabledError,
    MessageTTLInvalidError,
    PublishExpectationError,
    RollupError,
    StreamStoreFailedError,
    TooManyRequestsError,
    WrongLastMsgIdError,
    WrongLastSequenceError,
    WrongStreamError,
)
from jetspark.jetstream import DiscardPolicy, PubAck, PublishOptions, StreamConfig, schedule_at, schedule_every
from jetspark.jetstream.api import MessageGetRequest, StreamCreateRequest, StreamDeleteRequest, StreamInfoRequest
from jetspark.jetstream.publish import (
    PublishFields,
    batch_headers,
    check_commit,
    no_stream_error,
    plain_ack_prefix,
    publish_headers,
    read_pub_ack,
)
from jetspark.wire.headers import Headers

Pairs = list[tuple[str, str]]


class Publisher:
    """Publishes to a stream and reads the acknowledgements."""

    def __init__(self, client: RawClient, config: StreamConfig) -> None:
        self.client = client
        self.stream = config.name
        client.request(StreamCreateRequest(config))

    def __call__(self, options: PublishOptions | None = None, *, token: str = "a", data: bytes = b"x") -> PubAck:
        return self.raw([] if options is None else options.to_headers(), token=token, data=data)

    def raw(self, headers: Pairs, *, token: str = "a", data: bytes = b"x") -> PubAck:
        subject = f"{self.stream}.{token}"
        return read_pub_ack(self.client.ask(subject, data, headers).payload, subject)


@pytest.fixture
def into(client: RawClient) -> Iterator[Callable[..., Publisher]]:
    names: list[str] = []

    def make(name: str, **fields: object) -> Publisher:
        names.append(name)
        return Publisher(client, StreamConfig(name=name, subjects=[f"{name}.>"]).replace(**fields))

    yield make
    for name in names:
        client.request(StreamDeleteRequest(name))


def test_an_acknowledgement_has_stream_and_sequence(into: Callable[..., Publisher]) -> None:
    publish = into("PUBACK")
    assert publish() == PubAck(stream="PUBACK", sequence=1)
    first = publish(PublishOptions(msg_id="one"))
    again = publish(PublishOptions(msg_id="one"))
    assert (first.sequence, first.duplicate) == (2, False)
    assert (again.sequence, again.duplicate) == (2, True)
    assert list(unknown_fields([first, again])) == []


def test_an_acknowledgement_has_the_value_of_a_counter(into: Callable[..., Publisher]) -> None:
    publish = into("COUNT", allow_msg_counter=True, allow_direct=True)
    assert publish(PublishOptions(increment=5), data=b"").val == "5"
    assert publish(PublishOptions(increment=-7), data=b"").val == "-2"
    with pytest.raises(APIError) as caught:
        publish(data=b"")
    assert caught.value.err_code == 10169


def test_failed_expectations_have_different_errors(into: Callable[..., Publisher]) -> None:
    publish = into("EXPECT")
    assert publish(PublishOptions(expected_last_sequence=0, msg_id="m1")).sequence == 1
    for options, error in (
        (PublishOptions(expected_stream="OTHER"), WrongStreamError),
        (PublishOptions(expected_last_sequence=0), WrongLastSequenceError),
        (PublishOptions(expected_last_subject_sequence=0), WrongLastSequenceError),
        (PublishOptions(expected_last_msg_id="m0"), WrongLastMsgIdError),
    ):
        with pytest.raises(error) as caught:
            publish(options)
        assert isinstance(caught.value, PublishExpectationError)
        assert str(caught.value).startswith("EXPECT.a: ")
    with pytest.raises(WrongLastSequenceError) as wrong:
        publish(PublishOptions(expected_last_sequence=9))
    assert wrong.value.last_sequence == 1
    kept = PublishOptions(
        expected_stream="EXPECT",
        expected_last_sequence=1,
        expected_last_subject_sequence=1,
        expected_last_subject_sequence_subject="EXPECT.*",
        expected_last_msg_id="m1",
    )
    assert publish(kept, token="b").sequence == 2


def test_the_subject_of_an_expected_sequence_needs_the_sequence() -> None:
    with pytest.raises(ConfigError, match="needs expected_last_subject_sequence"):
        PublishOptions(expected_last_subject_sequence_subject="a.>")
    with pytest.raises(BadSubjectError):
        PublishOptions(expected_last_subject_sequence=1, expected_last_subject_sequence_subject="a b")
    with pytest.raises(ConfigError, match="expected_last_sequence must not be negative"):
        PublishOptions(expected_last_sequence=-1)
    with pytest.raises(ConfigError, match="expected_last_subject_sequence must not be negative"):
        PublishOptions(expected_last_subject_sequence=-1)


def test_refusals_of_the_stream_have_different_errors(into: Callable[..., Publisher]) -> None:
    publish = into("REFUSE", max_msgs=1, max_msg_size=100, discard=DiscardPolicy.NEW)
    with pytest.raises(MessageSizeExceedsMaximumError) as size:
        publish(data=b"x" * 101)
    assert size.value.err_code == 10054
    with pytest.raises(MessageTTLDisabledError):
        publish(PublishOptions(ttl=timedelta(seconds=5)))
    with pytest.raises(RollupError):
        publish(PublishOptions(rollup="all"))
    publish()
    with pytest.raises(StreamStoreFailedError) as full:
        publish()
    assert (full.value.code, full.value.err_code) == (503, 10077)


def test_message_ttls_are_accepted(client: RawClient, into: Callable[..., Publisher]) -> None:
    publish = into("TTL", allow_msg_ttl=True, allow_rollup_hdrs=True)
    for options, text in (
        (PublishOptions(ttl=timedelta(seconds=90)), "90"),
        (PublishOptions(ttl=timedelta(seconds=90.5)), "1m30.5s"),
        (PublishOptions(ttl="never"), "never"),
    ):
        seq = publish(options).sequence
        assert client.request(MessageGetRequest("TTL", sequence=seq)).headers["Nats-TTL"] == text
    with pytest.raises(MessageTTLInvalidError):
        publish(PublishOptions(ttl=timedelta(milliseconds=999)))
    assert publish(PublishOptions(rollup="all")).sequence == 4
    assert client.request(StreamInfoRequest("TTL")).state.messages == 1


def test_schedules_are_accepted(client: RawClient, into: Callable[..., Publisher]) -> None:
    publish = into("PLAN", allow_msg_schedules=True, allow_msg_ttl=True)
    later = datetime(2035, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    once = PublishOptions(schedule=schedule_at(later), schedule_target="PLAN.out", schedule_ttl=timedelta(minutes=5))
    assert publish(once, token="once").sequence == 1
    often = PublishOptions(
        schedule=schedule_every(timedelta(hours=1.5)), schedule_target="PLAN.out", schedule_source="PLAN.in"
    )
    assert publish(often, token="often").sequence == 2
    cron = PublishOptions(
        schedule="0 30 4 * * *", schedule_target="PLAN.out", schedule_time_zone="UTC", schedule_rollup="sub"
    )
    assert publish(cron, token="cron").sequence == 3
    first, second = (client.request(MessageGetRequest("PLAN", sequence=number)).headers for number in (1, 2))
    assert first["Nats-Schedule"] == "@at 2035-01-02T03:04:05.0006Z"
    assert second["Nats-Schedule"] == "@every 1h30m0s"


def test_a_schedule_repeats_after_a_second_or_more() -> None:
    with pytest.raises(ConfigError, match="at least 1s"):
        schedule_every(timedelta(seconds=0.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: PublishOptions(schedule_target="a"),
        lambda: PublishOptions(schedule_source="a"),
        lambda: PublishOptions(schedule_ttl=timedelta(1)),
        lambda: PublishOptions(schedule_time_zone="UTC"),
        lambda: PublishOptions(schedule_rollup="sub"),
    ],
)
def test_schedule_options_need_a_schedule(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="need schedule"):
        make()


def test_options_set_only_their_own_headers() -> None:
    assert PublishOptions().to_headers() == []
    assert PublishOptions(msg_id="", expected_last_sequence=0).to_headers() == [
        ("Nats-Msg-Id", ""),
        ("Nats-Expected-Last-Sequence", "0"),
    ]
    assert PublishOptions(increment=0).to_headers() == [("Nats-Incr", "+0")]
    assert repr(PublishOptions(msg_id="x")) == "PublishOptions(msg_id='x')"


def test_keywords_have_the_names_and_types_of_the_options() -> None:
    assert get_type_hints(PublishFields) == get_type_hints(PublishOptions)


def test_headers_of_the_caller_and_keywords_are_combined() -> None:
    mine = {"Color": ["red", "green"], "Nats-Msg-Id": "mine"}
    assert publish_headers(mine, {}) is mine
    assert publish_headers(None, {}) is None
    assert publish_headers(None, {"msg_id": "m"}) == [("Nats-Msg-Id", "m")]
    together = publish_headers(mine, {"msg_id": "m", "expected_last_sequence": 0})
    assert Headers(together or ()) == {
        "Color": ["red", "green"],
        "Nats-Msg-Id": "m",
        "Nats-Expected-Last-Sequence": "0",
    }
    assert mine == {"Color": ["red", "green"], "Nats-Msg-Id": "mine"}


def test_a_batch_is_acknowledged_as_one(into: Callable[..., Publisher]) -> None:
    publish = into("BATCH", allow_atomic=True)
    client = publish.client
    for number in (1, 2):
        assert client.ask("BATCH.a", b"x", batch_headers("b1", number)).payload == b""
    ack = publish.raw(batch_headers("b1", 3, "1"))
    assert (ack.stream, ack.sequence, ack.batch, ack.count) == ("BATCH", 3, "b1", 3)
    client.ask("BATCH.a", b"x", batch_headers("b2", 1))
    ended = publish.raw(batch_headers("b2", 2, "eob"))
    assert (ended.sequence, ended.batch, ended.count) == (4, "b2", 1)
    assert list(unknown_fields([ack, ended])) == []


def test_refusals_of_a_batch_have_different_errors(into: Callable[..., Publisher]) -> None:
    publish = into("NOBATCH")
    with pytest.raises(AtomicPublishDisabledError):
        publish.raw(batch_headers("b", 1))
    atomic = into("BATCHES", allow_atomic=True)
    with pytest.raises(IncompleteBatchError):
        atomic.raw(batch_headers("b", 2))
    atomic(PublishOptions(msg_id="m"))
    with pytest.raises(DuplicateInBatchError):
        atomic.raw([*batch_headers("b", 1, "1"), *PublishOptions(msg_id="m").to_headers()])


@pytest.mark.parametrize(
    "make",
    [
        lambda: batch_headers("", 1),
        lambda: batch_headers("x" * 65, 1),
        lambda: batch_headers("b", 0),
        lambda: batch_headers("b", 1001),
        lambda: batch_headers("b", 1001, "1"),
        lambda: batch_headers("b", 1002, "eob"),
    ],
)
def test_batches_that_the_server_would_refuse_are_not_sent(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_an_end_of_batch_is_not_counted() -> None:
    assert batch_headers("b", 1001, "eob") == [
        ("Nats-Batch-Id", "b"),
        ("Nats-Batch-Sequence", "1001"),
        ("Nats-Batch-Commit", "eob"),
    ]


def test_an_error_takes_precedence_over_stream_and_sequence() -> None:
    with pytest.raises(WrongLastSequenceError):
        read_pub_ack(b'{"error":{"code":400,"err_code":10164,"description":"x"},"stream":"S","seq":0}')
    with pytest.raises(TooManyRequestsError):
        read_pub_ack(b'{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":"S","seq":0}')


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"+OK",
        b"hello",
        b"[1]",
        b"{}",
        b'{"seq":3}',
        b'{"stream":"S"}',
        b'{"stream":"","seq":3}',
        b'{"stream":"S","seq":"3"}',
        b'{"stream":"S","seq":null}',
        b'{"error":"no"}',
        b'{"stream":"S","seq":0}',
        b'{"stream":"S","seq":-1}',
        b'{"stream":"S","seq":18446744073709551616}',
        b'{"stream":"\xff","seq":1}',
    ],
)
def test_an_invalid_acknowledgement_is_an_error(payload: bytes) -> None:
    with pytest.raises(InvalidAckError, match=r"^orders\.new: "):
        read_pub_ack(payload, "orders.new")


def test_an_acknowledgement_of_another_stream_than_expected_is_an_error() -> None:
    assert read_pub_ack(b'{"stream":"S","seq":1}', "orders.new", "S").sequence == 1
    with pytest.raises(InvalidAckError, match=r"^orders\.new: stream 'T' has answered, not the expected 'S'"):
        read_pub_ack(b'{"stream":"T","seq":1}', "orders.new", "S")


@given(st.integers(1, 2**64 - 1), st.text(min_size=1), st.booleans())
def test_acknowledgements_are_decoded_completely(seq: int, stream: str, duplicate: bool) -> None:
    text = json.dumps({"stream": stream, "seq": seq, "duplicate": duplicate, "news": [1]}).encode()
    assert read_pub_ack(text) == PubAck(stream=stream, sequence=seq, duplicate=duplicate, extra={"news": [1]})


@pytest.mark.parametrize(
    ("payload", "prefix"),
    [
        (b'{"stream":"S", "seq":17}', b'{"stream":"S", "seq":'),
        (b'{"stream":"S","domain":"hub","seq":9}', b'{"stream":"S","domain":"hub","seq":'),
        (b'{"stream":"S", "seq":17,"duplicate": true}', None),
        (b'{"stream":"S","seq":0}', None),
        (b'{"stream":"S","seq":07}', None),
        (b'{"error":{"code":429},"stream":"S","seq":7}', b'{"error":{"code":429},"stream":"S","seq":'),
        (b'{"stream":"S", "seq":1.5}', None),
        (b'{"stream":"S", "seq":}', None),
        (b'{"stream":"S", "seq":17', None),
        (b'{"a":1}', None),
        (b"+OK", None),
        (b"", None),
    ],
)
def test_the_text_before_a_final_sequence_is_split_off(payload: bytes, prefix: bytes | None) -> None:
    assert plain_ack_prefix(payload) == prefix


def test_the_answer_to_a_commit_belongs_to_the_whole_batch() -> None:
    ack = PubAck(stream="S", sequence=3, batch="b", count=3)
    assert check_commit(ack, "b", 3, "x") is ack
    for batch_id, count in (("c", 3), ("b", 2), ("b", 4)):
        with pytest.raises(
            InvalidAckError, match=f"not match batch '{batch_id}' of {count} messages: it is for 'b' of 3"
        ):
            check_commit(ack, batch_id, count, "x")
    with pytest.raises(InvalidAckError, match="up to sequence 2"):
        check_commit(PubAck(stream="S", sequence=2, batch="b", count=3), "b", 3, "x")


def test_a_missing_stream_is_reported_with_the_subject_and_known_retries() -> None:
    hint = "create one, or check the subject and the domain"
    assert str(no_stream_error()) == f"no stream captures the subject (503); {hint}"
    assert str(no_stream_error("a.b", 1)) == f"a.b: no stream captures the subject (503) after 1 retry; {hint}"
    assert str(no_stream_error("a.b", 2)) == f"a.b: no stream captures the subject (503) after 2 retries; {hint}"
