"""Reading and writing JSON without losing the fields of a newer server."""

import json
import pickle
from datetime import UTC, datetime, timedelta
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.jetstream import (
    AccountInfo,
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    DeliverPolicy,
    DiscardPolicy,
    Duration,
    PersistMode,
    Placement,
    PriorityPolicy,
    ReplayPolicy,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamInfo,
    StreamState,
    Timestamp,
    account,
    info,
)
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamNamesRequest,
)
from jetspark.jetstream.codec import JsonEnum, JsonStruct, decode, encode, to_builtins
from jetspark.jetstream.info import DesiredCluster, MigrationStatus, StreamSourceInfo

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
new_fields = st.dictionaries(st.from_regex(r"new_[a-z]{1,8}", fullmatch=True), json_values, max_size=3)


def info_document(config: dict[str, object], state: dict[str, object], outer: dict[str, object]) -> bytes:
    document = {
        "type": "io.nats.jetstream.api.v1.stream_info_response",
        "total": 0,
        "offset": 0,
        "limit": 0,
        "config": {
            "name": "S",
            "max_age": 1_500,
            "retention": "limits",
            "sources": [{"name": "O", **config}],
            **config,
        },
        "created": "2024-01-02T03:04:05.123456789Z",
        "state": {"messages": 2**64 - 1, "first_ts": "0001-01-01T00:00:00Z", **state},
        **outer,
    }
    return json.dumps(document).encode()


@pytest.mark.conformance("WIR-09")
@given(new_fields, new_fields, new_fields)
def test_r57_unknown_fields_are_kept_and_written_back(
    config: dict[str, object], state: dict[str, object], outer: dict[str, object]
) -> None:
    info = StreamInfoRequest("S").read(info_document(config, state, outer))
    assert info.extra == outer
    assert info.state.extra == state
    assert info.state.messages == 2**64 - 1
    assert info.config.extra == config
    assert info.config.sources is not None
    assert info.config.sources[0].extra == config
    assert info.created.isoformat() == "2024-01-02T03:04:05.123456+00:00"

    changed = info.config.replace(max_msgs=7)
    assert json.loads(encode(changed)) == {
        "name": "S",
        "max_age": 1_500,
        "retention": "limits",
        "max_msgs": 7,
        "sources": [{"name": "O", **config}],
        **config,
    }


def test_r57_a_start_time_is_sent_from_a_datetime_and_read_to_the_nanosecond() -> None:
    config = ConsumerConfig(opt_start_time=datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
    assert encode(config) == b'{"opt_start_time":"2024-01-02T03:04:05.000678Z"}'
    exact = decode(ConsumerConfig, b'{"opt_start_time":"2024-01-02T03:04:05.000678901Z"}')
    assert isinstance(exact.opt_start_time, Timestamp)
    assert exact.opt_start_time.nanosecond == 901
    assert encode(exact) == b'{"opt_start_time":"2024-01-02T03:04:05.000678901Z"}'


@pytest.mark.conformance("WIR-08")
def test_durations_are_integer_nanoseconds_and_unset_fields_are_left_out() -> None:
    config = ConsumerConfig(ack_wait=timedelta(seconds=1.5), opt_start_seq=2**63 + 1, backoff=[Duration.from_ns(1)])
    assert json.loads(encode(config)) == {"ack_wait": 1_500_000_000, "opt_start_seq": 2**63 + 1, "backoff": [1]}
    assert encode(ConsumerConfig()) == b"{}"
    assert encode(ConsumerConfig(max_deliver=0, headers_only=False)) == b'{"max_deliver":0,"headers_only":false}'


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63) + 1, 2**63 - 1))
def test_large_numbers_are_not_truncated(sequence: int, nanoseconds: int) -> None:
    text = json.dumps({"opt_start_seq": sequence, "ack_wait": nanoseconds}).encode()
    config = decode(ConsumerConfig, text)
    assert config.opt_start_seq == sequence
    assert isinstance(config.ack_wait, Duration)
    assert config.ack_wait.ns == nanoseconds
    assert json.loads(encode(config)) == json.loads(text)


@pytest.mark.conformance("WIR-09")
@pytest.mark.parametrize(
    ("enumeration", "words"),
    [
        (RetentionPolicy, "limits interest workqueue"),
        (DiscardPolicy, "old new"),
        (StorageType, "file memory"),
        (StoreCompression, "none s2"),
        (PersistMode, "default async"),
        (DeliverPolicy, "all last new by_start_sequence by_start_time last_per_subject"),
        (AckPolicy, "none all explicit flow_control"),
        (ReplayPolicy, "instant original"),
        (PriorityPolicy, "none overflow pinned_client prioritized"),
        (MigrationStatus, "meta membership snapshot catchup quorum blocked unavailable"),
    ],
)
def test_an_enumeration_has_the_values_of_the_server(enumeration: type[JsonEnum], words: str) -> None:
    # A word with a typing error would read as an unknown one, and nobody would notice.
    assert [str(member) for member in enumeration] == words.split()


@pytest.mark.parametrize("module", [account, info])
def test_missing_fields_are_read_as_none(module: ModuleType) -> None:
    answers = [getattr(module, name) for name in module.__all__]
    defaults = {
        f"{answer.__name__}.{field.name}": field.default
        for answer in answers
        if issubclass(answer, JsonStruct)
        for field in msgspec.structs.fields(answer)
        if field.default is not msgspec.NODEFAULT
    }
    assert {name: default for name, default in defaults.items() if default} == {}
    assert len(defaults) > 20


def test_unknown_values_of_enumerations_are_kept() -> None:
    config = decode(ConsumerConfig, b'{"ack_policy":"telepathy"}')
    assert config.ack_policy is not None
    assert config.ack_policy == "telepathy"
    assert isinstance(config.ack_policy, AckPolicy)
    assert config.ack_policy not in set(AckPolicy)
    assert encode(config) == b'{"ack_policy":"telepathy"}'
    assert list(unknown_fields(config)) == [".ack_policy=telepathy"]
    assert decode(ConsumerConfig, b'{"ack_policy":"flow_control"}').ack_policy is AckPolicy.FLOW_CONTROL
    with pytest.raises(ValueError, match="3"):
        AckPolicy(3)  # type: ignore[arg-type]  # what a caller without types might do


@pytest.mark.conformance("WIR-09")
@pytest.mark.parametrize("null", ["config", "state", "cluster", "sources", "alternates", "mirror", "ts", "domain"])
def test_null_is_read_as_missing(null: str) -> None:
    document = json.loads(info_document({}, {}, {}))
    if null == "config":
        document["config"].update(subjects=None, metadata=None, placement=None)
    elif null == "state":
        document["state"].update(subjects=None, deleted=None, num_deleted=None, consumer_count=None)
    else:
        document[null] = None
    info = StreamInfoRequest("S").read(json.dumps(document).encode())
    assert info.extra == {}
    assert (info.config.subjects, info.config.metadata) == (None, None)
    assert (info.state.subjects, info.state.num_deleted, info.state.consumer_count) == (None, 0, 0)
    assert (info.cluster, info.sources, info.alternates, info.domain) == (None, None, None, "")


@pytest.mark.conformance("WIR-09")
def test_the_real_server_sends_null_for_empty_names_and_adds_its_own_metadata(client: RawClient) -> None:
    reply = client.ask("$JS.API.STREAM.NAMES", b'{"subject":"nobody.has.this"}')
    assert b'"streams":null' in reply.payload
    assert StreamNamesRequest().read(reply.payload).items == []
    try:
        info = client.request(StreamCreateRequest(StreamConfig(name="CODEC", subjects=["codec"])))
        assert info.config.metadata is not None
        assert any(key.startswith("_nats.") for key in info.config.metadata)
        consumer = ConsumerConfig(
            name="fc",
            ack_policy=AckPolicy.FLOW_CONTROL,
            flow_control=True,
            idle_heartbeat=timedelta(seconds=1),
            max_ack_pending=10,
            deliver_subject="deliver.fc",
        )
        created = client.request(ConsumerCreateRequest("CODEC", consumer, ConsumerAction.CREATE))
        assert created.config.ack_policy is AckPolicy.FLOW_CONTROL
    finally:
        client.request(StreamDeleteRequest("CODEC"))


def test_zero_times_are_none() -> None:
    state = decode(StreamState, b'{"first_ts":"0001-01-01T00:00:00Z","last_ts":"0001-01-01T00:00:00Z"}')
    assert (state.first_ts, state.last_ts) == (None, None)
    kept = decode(StreamState, b'{"last_ts":"2024-01-01T00:00:00Z"}')
    assert kept.last_ts == datetime(2024, 1, 1, tzinfo=UTC)


def test_a_source_that_was_never_seen_has_a_negative_duration() -> None:
    info = decode(StreamSourceInfo, b'{"name":"O","lag":0,"active":-1}')
    assert isinstance(info.active, Duration)
    assert info.active.ns == -1
    assert info.active < timedelta()


def test_nested_values_are_decoded_among_unknown_fields() -> None:
    text = b'{"name":"c","news":1,"replicas":[{"name":"n","active":7,"news":2}],"status":{"type":"catchup","news":3}}'
    cluster = decode(DesiredCluster, text)
    assert sorted(unknown_fields(cluster)) == [".news", ".replicas[].news", ".status.news"]
    assert cluster.replicas is not None
    assert cluster.replicas[0].active == Duration.from_ns(7)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"max_msgs":"many"}',
        b'{"name":3}',
        b'{"name":"S","max_age":"1s","news":1}',
        b'{"x":1}',
        b'{"name":"S","subjects":{},"news":1}',
        b'{"name":"S","placement":[],"news":1}',
        b'{"name":"\xff"}',
        b'{"name":"S","news":"\xff"}',
    ],
)
def test_an_invalid_stream_configuration_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(StreamConfig, text)


def test_invalid_times_are_a_decode_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(StreamInfo, b'{"config":{"name":"S"},"created":"yesterday"}')
    with pytest.raises(msgspec.DecodeError):
        decode(ConsumerInfo, b'{"stream_name":"S","name":"c","created":7}')


def test_writing_accepts_only_valid_configurations() -> None:
    assert to_builtins({"a": (1, b"\x00\xff"), "b": Placement(tags=["x"]), "c": {"d": None}}) == {
        "a": [1, "AP8="],
        "b": {"tags": ["x"]},
        "c": {"d": None},
    }
    with pytest.raises(TypeError, match="object"):
        to_builtins(object())
    with pytest.raises(ValueError, match="no time zone"):
        encode(ConsumerConfig(opt_start_time=datetime(2024, 1, 1)))  # noqa: DTZ001 - naive on purpose


def test_configurations_compare_by_value_and_their_repr_shows_set_fields() -> None:
    one = StreamConfig(name="S", max_age=timedelta(hours=1), retention=RetentionPolicy.LIMITS)
    assert one == decode(StreamConfig, encode(one))
    assert one != one.replace(max_msgs=1)
    assert repr(ConsumerConfig(name="c")) == "ConsumerConfig(name='c')"
    with pytest.raises(TypeError):
        one.replace(max_mgs=1)


def test_maps_are_decoded_among_unknown_fields() -> None:
    text = b'{"news":1,"tiers":{"R1":{"streams":2,"news":2}},"streams":2}'
    account = decode(AccountInfo, text)
    assert account.tiers is not None
    assert account.tiers["R1"].streams == 2
    assert sorted(unknown_fields(account)) == [".news", ".tiers{}.news"]


def test_configurations_survive_pickling() -> None:
    text = (
        b'{"ack_policy":"telepathy","ack_wait":1500000001,"opt_start_time":"2024-01-02T03:04:05.678901234Z","news":[1]}'
    )
    config = decode(ConsumerConfig, text)
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert json.loads(encode(again)) == json.loads(text)
