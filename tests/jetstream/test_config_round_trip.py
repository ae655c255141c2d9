"""Every field of a configuration on the real server: set, read back, equal, and no unknown field."""

from datetime import timedelta

import pytest
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.jetstream import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    Duration,
    ExternalStream,
    PersistMode,
    Placement,
    PriorityPolicy,
    ReplayPolicy,
    Republish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
    Timestamp,
)
from jetspark.jetstream.api import (
    AccountInfoRequest,
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    ConsumerListRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamUpdateRequest,
)
from jetspark.jetstream.codec import JsonStruct

ODD = Duration.from_ns(3_600_000_000_007)  # an hour and seven nanoseconds: a timedelta cannot hold it
MOMENT = Timestamp.parse("2031-02-03T04:05:06.123456789Z")

STREAMS = [
    StreamConfig(
        name="LIMITS",
        description="all limits",
        subjects=["limits.>"],
        retention=RetentionPolicy.LIMITS,
        max_consumers=7,
        max_msgs=1000,
        max_bytes=10_000_000,
        max_age=ODD,
        max_msgs_per_subject=9,
        max_msg_size=1024,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        storage=StorageType.FILE,
        num_replicas=1,
        no_ack=True,
        duplicate_window=timedelta(seconds=90),
        compression=StoreCompression.S2,
        first_seq=2**60,
        deny_delete=True,
        deny_purge=True,
        consumer_limits=StreamConsumerLimits(inactive_threshold=timedelta(minutes=3), max_ack_pending=11),
        metadata={"owner": "tests"},
    ),
    StreamConfig(
        name="SUBJECTS",
        subjects=["in.*"],
        retention=RetentionPolicy.INTEREST,
        storage=StorageType.MEMORY,
        subject_transform=SubjectTransform(src="in.*", dest="kept.{{wildcard(1)}}"),
        republish=Republish(src="kept.>", dest="again.>", headers_only=True),
        allow_direct=True,
        allow_rollup_hdrs=True,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=timedelta(seconds=30),
        allow_atomic=True,
        allow_batched=True,
    ),
    StreamConfig(name="COUNTER", subjects=["counter.>"], allow_msg_counter=True, allow_direct=True),
    StreamConfig(name="SCHEDULE", subjects=["schedule.>"], allow_msg_schedules=True),
    StreamConfig(name="ASYNC", subjects=["async.>"], persist_mode=PersistMode.ASYNC),
    StreamConfig(name="QUEUE", subjects=["queue.>"], retention=RetentionPolicy.WORK_QUEUE),
    StreamConfig(name="PLACED", subjects=["placed.>"], placement=Placement(cluster="c", tags=["fast"])),
    StreamConfig(name="ORIGIN", subjects=["origin.>"], allow_direct=True),
    StreamConfig(name="MIRROR", mirror=StreamSource(name="ORIGIN", opt_start_seq=2), mirror_direct=True),
    StreamConfig(
        name="SOURCED",
        sources=[
            StreamSource(name="ORIGIN", opt_start_time=MOMENT, filter_subject="origin.a"),
            StreamSource(name="QUEUE", subject_transforms=[SubjectTransform(src="queue.*", dest="q.{{wildcard(1)}}")]),
            StreamSource(
                name="ELSEWHERE",
                external=ExternalStream(api="$JS.hub.API", deliver="deliver.elsewhere"),
                consumer=StreamConsumerSource(name="reader", deliver_subject="deliver.elsewhere.reader"),
            ),
        ],
    ),
]
"""Configurations that together name every field. `sealed` is only possible by update and has its own test."""

CONSUMERS = [
    ConsumerConfig(
        name="pull",
        durable_name="pull",
        description="a pull consumer",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=2**63 + 1,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=timedelta(seconds=1.5),
        max_deliver=5,
        backoff=[timedelta(seconds=1.5), Duration.from_ns(2_000_000_001)],
        filter_subjects=["origin.a", "origin.b"],
        replay_policy=ReplayPolicy.ORIGINAL,
        sample_freq="30%",
        max_waiting=17,
        max_ack_pending=19,
        headers_only=True,
        max_batch=23,
        max_expires=ODD,
        max_bytes=29,
        inactive_threshold=timedelta(hours=1),
        num_replicas=1,
        mem_storage=True,
        metadata={"owner": "tests"},
        pause_until=MOMENT,
    ),
    ConsumerConfig(
        name="push",
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=MOMENT,
        ack_policy=AckPolicy.NONE,
        filter_subject="origin.>",
        rate_limit_bps=1_000_000,
        flow_control=True,
        idle_heartbeat=timedelta(milliseconds=500),
        deliver_subject="deliver.push",
        deliver_group="group",
    ),
    ConsumerConfig(
        name="pinned",
        ack_policy=AckPolicy.EXPLICIT,
        priority_groups=["jobs"],
        priority_policy=PriorityPolicy.PINNED_CLIENT,
        priority_timeout=timedelta(seconds=7),
    ),
]
INTERNAL = {"direct", "sourcing"}
"""Fields of consumers that only servers use among themselves."""


def set_fields(config: JsonStruct) -> dict[str, object]:
    """Return the paths of the set fields of a configuration and of nested values."""
    return {name: getattr(config, name) for name in config.__struct_fields__ if getattr(config, name) not in (None, {})}


def assert_holds(got: JsonStruct, wanted: JsonStruct) -> None:
    """Check that every requested field has its value. Metadata may also have keys of the server."""
    for name, value in set_fields(wanted).items():
        found = getattr(got, name)
        if name == "metadata":
            assert isinstance(value, dict)
            assert value.items() <= found.items()
        else:
            assert found == value, name


def delete_all(client: RawClient) -> None:
    for info in client.request(StreamListRequest()).items:
        client.request(StreamDeleteRequest(info.config.name))


def test_stream_configurations_name_every_field() -> None:
    named = {name for config in STREAMS for name in set_fields(config)} | {"sealed"}
    assert named == set(StreamConfig.__struct_fields__) - {"extra"}


def test_consumer_configurations_name_every_field() -> None:
    named = {name for config in CONSUMERS for name in set_fields(config)}
    assert named == set(ConsumerConfig.__struct_fields__) - {"extra"} - INTERNAL


def test_every_field_of_a_stream_is_returned_as_it_was_set(client: RawClient) -> None:
    try:
        for config in STREAMS:
            created = client.request(StreamCreateRequest(config))
            assert_holds(created.config, config)
            info = client.request(StreamInfoRequest(config.name))
            assert_holds(info.config, config)
            assert info.created == created.created
            assert list(unknown_fields(info)) == []
        assert list(unknown_fields(client.request(AccountInfoRequest()))) == []
    finally:
        delete_all(client)


def test_a_stream_is_sealed_by_update(client: RawClient) -> None:
    info = client.request(StreamCreateRequest(StreamConfig(name="SEALED", subjects=["sealed"])))
    try:
        client.request(StreamUpdateRequest(info.config.replace(sealed=True)))
        assert client.request(StreamInfoRequest("SEALED")).config.sealed is True
    finally:
        client.request(StreamDeleteRequest("SEALED"))


@pytest.mark.conformance("CFG-06", "WIR-08")
@pytest.mark.parametrize("config", CONSUMERS, ids=lambda config: config.name)
def test_every_field_of_a_consumer_is_returned_as_it_was_set(client: RawClient, config: ConsumerConfig) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="ORIGIN", subjects=["origin.>"])))
    try:
        created = client.request(ConsumerCreateRequest("ORIGIN", config))
        assert_holds(created.config, config)
        assert config.name is not None
        info = client.request(ConsumerInfoRequest("ORIGIN", config.name))
        assert_holds(info.config, config)
        assert list(unknown_fields(info)) == []
        listed = client.request(ConsumerListRequest("ORIGIN")).items
        assert [found.name for found in listed] == [config.name]
        assert list(unknown_fields(listed)) == []
    finally:
        client.request(StreamDeleteRequest("ORIGIN"))
