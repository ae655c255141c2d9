"""How a subscription finds its stream, and to which consumers it can bind. The tests observe the requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.subscribing.support import live, reported_error, side
from tests.fronts import Ground

from jetspark.aio.jetstream import Stream
from jetspark.errors import (
    BindingError,
    ConsumerAlreadyBoundError,
    ConsumerConfigMismatchError,
    ConsumerNotFoundError,
    DeliverGroupMismatchError,
    DeliverGroupMissingError,
    DeliverGroupRequiredError,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    MissedHeartbeatError,
    NoMatchingStreamError,
    NotPullConsumerError,
    NotPushConsumerError,
    QueueFeatureError,
    RequestTimeoutError,
    StreamNotFoundError,
    SubjectMismatchError,
)
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.server import NatsServer

SECOND = timedelta(seconds=1)


async def endpoints(ground: Ground, spy: Any) -> list[str]:
    """Return the requests without the prefix of the API."""
    await spy.settled()
    return [subject.partition(".API.")[2] for subject in spy.subjects]


# -- the stream --------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("STR-01")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_the_stream_is_found_by_subject_with_one_request(ground: Ground) -> None:
    stream = await ground.stream()
    spy = await ground.spy()
    subscription = await ground.js.subscribe(f"{stream.name}.a")
    assert subscription.stream == stream.name
    assert (await endpoints(ground, spy))[0] == "STREAM.NAMES"
    assert json.loads(spy.messages[0].payload) == {"subject": f"{stream.name}.a"}


@pytest.mark.conformance("STR-02")
async def test_no_stream_and_two_streams_match_nothing_and_no_consumer_is_created(ground: Ground) -> None:
    one, two = await ground.stream(), await ground.stream()
    with pytest.raises(NoMatchingStreamError, match="no stream matches subject"):
        await ground.js.subscribe("nobody.stores.this")
    with pytest.raises(NoMatchingStreamError) as caught:
        await ground.js.pull_subscribe("*.a")
    assert {one.name, two.name} <= set(caught.value.streams)
    assert await ground.js.consumer_names(one.name).all() == []


@pytest.mark.conformance("STR-02")
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_an_account_without_jetstream_has_its_own_error(ground: Ground) -> None:
    accounts = {
        "accounts": {
            "WITH": {"jetstream": True, "users": [{"user": "w", "password": "w"}]},
            "WITHOUT": {"users": [{"user": "o", "password": "o"}]},
        }
    }
    with NatsServer(config=accounts) as server:
        async with side(ground, server.url, user="o", password="o") as other:
            with pytest.raises(JetStreamNotEnabledForAccountError):
                await other.js.subscribe("a")


@pytest.mark.conformance("STR-02")
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_no_responders_to_the_stream_lookup_has_its_own_error(ground: Ground) -> None:
    with pytest.raises(JetStreamNotEnabledError):
        await ground.nc.jetstream(domain="nowhere").subscribe("a")


@pytest.mark.conformance("STR-03")
async def test_a_given_stream_is_not_looked_up_and_a_foreign_filter_matches_nothing(ground: Ground) -> None:
    stream = await ground.stream()
    spy = await ground.spy()
    subscription = await ground.js.subscribe("quite.another", stream=stream.name)
    assert [each.split(".")[1] for each in await endpoints(ground, spy)] == ["CREATE"]
    info = await subscription.consumer_info()
    assert (info.config.filter_subject, info.num_pending) == ("quite.another", 0)


# -- the lookup ------------------------------------------------------------------------------------------------------


async def push_consumer(ground: Ground, stream: Stream, **fields: Any) -> str:
    fields.setdefault("durable_name", "c")
    fields.setdefault("deliver_subject", ground.nc.new_inbox())
    await ground.js.create_consumer(stream.name, **fields)
    return str(fields["durable_name"])


@pytest.mark.conformance("BND-01")
async def test_binding_looks_up_the_consumer_first_and_creates_nothing(ground: Ground) -> None:
    stream = await ground.stream()
    await push_consumer(ground, stream)
    await ground.js.create_consumer(stream.name, durable_name="p")
    spy = await ground.spy()
    js = ground.nc.jetstream(domain=ground.profile.domain, timeout=30)  # no request is repeated so soon
    push = await js.subscribe_bind(stream.name, consumer="c")
    pull = await js.pull_subscribe_bind("p", stream.name)
    found = await js.pull_subscribe(f"{stream.name}.a", "p", stream=stream.name)
    wanted = [f"CONSUMER.INFO.{stream.name}.{name}" for name in ("c", "p", "p")]
    assert await endpoints(ground, spy) == wanted
    assert not any(each.created for each in (push, pull, found))


@pytest.mark.conformance("BND-01")
async def test_the_lookup_can_be_skipped(ground: Ground) -> None:
    stream = await ground.stream()
    await push_consumer(ground, stream, deliver_subject=(inbox := ground.nc.new_inbox()))
    await ground.js.create_consumer(stream.name, durable_name="p")
    await ground.fill(f"{stream.name}.a", b"1")
    spy = await ground.spy()
    pull = await ground.js.pull_subscribe_bind("p", stream.name, skip_consumer_lookup=True)
    config = ConsumerConfig(deliver_subject=inbox)
    push = await ground.js.subscribe_bind(stream.name, config, "c", skip_consumer_lookup=True)
    assert await endpoints(ground, spy) == []
    assert (await push.next_msg(5)).payload == b"1"
    assert [message.payload for message in await pull.fetch(1)] == [b"1"]


@pytest.mark.conformance("BND-02")
async def test_binding_to_a_push_consumer_that_cannot_be_found_fails(ground: Ground) -> None:
    stream = await ground.stream()
    before = live(ground.nc)
    with pytest.raises(ConsumerNotFoundError):
        await ground.js.subscribe_bind(stream.name, consumer="none")
    with pytest.raises(StreamNotFoundError):
        await ground.js.subscribe_bind("none", consumer="none")
    assert await ground.js.consumer_names(stream.name).all() == []
    assert live(ground.nc) == before


@pytest.mark.conformance("BND-02", "BND-03")
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_a_binding_without_lookup_answer_fails_for_push_and_continues_for_pull(ground: Ground) -> None:
    nowhere = ground.nc.jetstream(domain="nowhere")
    with pytest.raises(JetStreamNotEnabledError):
        await nowhere.subscribe_bind("S", consumer="c")
    pull = await nowhere.pull_subscribe_bind("c", "S")
    assert (pull.stream, pull.consumer) == ("S", "c")
    silent = await ground.admin.subscribe("$JS.silent.API.>")
    await ground.admin.flush()
    quiet = ground.nc.jetstream(domain="silent", timeout=0.2)
    with pytest.raises(RequestTimeoutError):
        await quiet.subscribe_bind("S", consumer="c")
    assert (await quiet.pull_subscribe_bind("c", "S")).consumer == "c"
    await silent.unsubscribe()


@pytest.mark.conformance("BND-03")
async def test_a_pull_binding_stops_after_a_definite_answer(ground: Ground) -> None:
    stream = await ground.stream()
    with pytest.raises(ConsumerNotFoundError):
        await ground.js.pull_subscribe_bind("none", stream.name)
    with pytest.raises(StreamNotFoundError):
        await ground.js.pull_subscribe_bind("none", "none")


@pytest.mark.conformance("BND-04")
async def test_a_missing_durable_is_created_and_any_other_error_is_raised(ground: Ground) -> None:
    stream = await ground.stream()
    assert (await ground.js.pull_subscribe(f"{stream.name}.a", "d")).created
    with pytest.raises(StreamNotFoundError):
        await ground.js.pull_subscribe("a", "d", stream="none")


@pytest.mark.conformance("BND-05")
async def test_binding_to_a_consumer_with_an_active_subscriber_fails(ground: Ground) -> None:
    stream = await ground.stream()
    first = await ground.js.subscribe(f"{stream.name}.a", durable="d")
    before = live(ground.nc)
    with pytest.raises(ConsumerAlreadyBoundError, match="already bound"):
        await ground.js.subscribe(f"{stream.name}.a", durable="d")
    with pytest.raises(ConsumerAlreadyBoundError):
        await ground.js.subscribe_bind(stream.name, consumer="d")
    assert live(ground.nc) == before
    await ground.fill(f"{stream.name}.a", b"1")
    assert (await first.next_msg(5)).payload == b"1"


@pytest.mark.conformance("BND-06")
async def test_each_mismatch_of_queue_and_group_has_its_own_error(ground: Ground) -> None:
    """R32: the four mismatches of ADR-15."""
    stream = await ground.stream()
    subject = f"{stream.name}.a"
    await push_consumer(ground, stream, durable_name="grouped", deliver_group="g")
    await push_consumer(ground, stream, durable_name="plain")
    with pytest.raises(DeliverGroupRequiredError):
        await ground.js.subscribe(subject, durable="grouped")
    with pytest.raises(DeliverGroupMismatchError):
        await ground.js.subscribe(subject, "h", durable="grouped")
    with pytest.raises(DeliverGroupMissingError):
        await ground.js.subscribe(subject, "g", durable="plain")
    member = await ground.js.subscribe(subject, "g", durable="grouped")
    assert member.queue == "g"


@pytest.mark.conformance("BND-07")
async def test_a_different_filter_is_a_mismatch_and_a_missing_subject_is_not_checked(ground: Ground) -> None:
    stream = await ground.stream()
    await push_consumer(ground, stream, filter_subject=f"{stream.name}.a")
    with pytest.raises(SubjectMismatchError):
        await ground.js.subscribe(f"{stream.name}.b", durable="c")
    with pytest.raises(SubjectMismatchError):
        await ground.js.subscribe_bind(stream.name, consumer="c", subject=f"{stream.name}.b")
    assert not (await ground.js.subscribe_bind(stream.name, consumer="c")).created


@pytest.mark.conformance("BND-08")
async def test_pulling_from_a_push_consumer_and_the_reverse_have_different_errors(ground: Ground) -> None:
    stream = await ground.stream()
    subject = f"{stream.name}.a"
    await push_consumer(ground, stream)
    await ground.js.create_consumer(stream.name, durable_name="p")
    with pytest.raises(NotPullConsumerError):
        await ground.js.pull_subscribe(subject, "c")
    with pytest.raises(NotPullConsumerError):
        await ground.js.pull_subscribe_bind("c", stream.name)
    with pytest.raises(NotPushConsumerError):
        await ground.js.subscribe(subject, durable="p")
    with pytest.raises(NotPushConsumerError):
        await ground.js.subscribe_bind(stream.name, consumer="p")


@pytest.mark.conformance("BND-09")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ack_policy", AckPolicy.ALL),
        ("replay_policy", ReplayPolicy.ORIGINAL),
        ("opt_start_seq", 9),
        ("flow_control", True),
        ("num_replicas", 3),
        ("description", "another"),
        ("deliver_policy", DeliverPolicy.NEW),
        ("ack_wait", timedelta(seconds=7)),
        ("max_deliver", 7),
        ("rate_limit_bps", 7000),
        ("sample_freq", "7"),
        ("max_ack_pending", 7),
        ("idle_heartbeat", SECOND),
        ("headers_only", True),
        ("mem_storage", True),
    ],
)
async def test_set_fields_must_match_and_the_error_names_both_values(ground: Ground, field: str, value: object) -> None:
    stream = await ground.stream()
    start: dict[str, Any] = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 7}
    fields = start if field == "opt_start_seq" else {}
    await push_consumer(ground, stream, filter_subject=f"{stream.name}.a", **fields)
    with pytest.raises(ConsumerConfigMismatchError, match=field) as caught:
        await ground.js.subscribe(f"{stream.name}.a", durable="c", config=ConsumerConfig().replace(**{field: value}))
    assert caught.value.differences[field][0] == value
    assert (await ground.js.consumer_info(stream.name, "c")).push_bound is False


@pytest.mark.conformance("BND-09")
async def test_start_time_max_waiting_and_filters_must_match_too(ground: Ground) -> None:
    stream = await ground.stream()
    subject = f"{stream.name}.a"
    now = datetime.now(UTC)
    by_time = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=now)
    await push_consumer(
        ground,
        stream,
        filter_subject=subject,
        deliver_policy=by_time.deliver_policy,
        opt_start_time=by_time.opt_start_time,
    )
    later = by_time.replace(opt_start_time=now + SECOND)
    with pytest.raises(ConsumerConfigMismatchError, match="opt_start_time"):
        await ground.js.subscribe(subject, durable="c", config=later)
    filters = ConsumerConfig(filter_subjects=[f"{stream.name}.b", f"{stream.name}.c"])
    with pytest.raises(SubjectMismatchError, match=f"{stream.name}.b"):
        await ground.js.subscribe_bind(stream.name, filters, "c")
    assert not (await ground.js.subscribe(subject, durable="c", config=by_time)).created
    await ground.js.pull_subscribe(subject, "p")
    with pytest.raises(ConsumerConfigMismatchError, match="max_waiting") as caught:
        await ground.js.pull_subscribe(subject, "p", config=ConsumerConfig(max_waiting=7))
    assert caught.value.differences == {"max_waiting": (7, 512)}


@pytest.mark.conformance("BND-09")
async def test_unset_fields_and_server_defaults_are_not_compared(ground: Ground) -> None:
    stream = await ground.stream()
    await push_consumer(ground, stream, ack_wait=timedelta(seconds=7), max_deliver=7, metadata={"a": "b"})
    config = ConsumerConfig(metadata={"c": "d"}, max_deliver=7)
    assert not (await ground.js.subscribe(f"{stream.name}.a", durable="c", config=config)).created
    info = await ground.js.consumer_info(stream.name, "c")
    assert (info.config.metadata or {}).get("a") == "b"


async def test_r30_a_durable_for_another_subject_is_refused(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.js.create_consumer(stream.name, durable_name="d", filter_subject=f"{stream.name}.y")
    with pytest.raises(BindingError, match=f"{stream.name}.y"):
        await ground.js.pull_subscribe(f"{stream.name}.z", "d")


async def test_r29_a_durable_name_in_the_configuration_counts(ground: Ground) -> None:
    stream = await ground.stream()
    config = ConsumerConfig(durable_name="x")
    pull = await ground.js.pull_subscribe(f"{stream.name}.a", config=config)
    assert (pull.consumer, pull.created) == ("x", True)
    again = await ground.js.pull_subscribe(f"{stream.name}.a", config=config)
    assert (again.consumer, again.created) == ("x", False)


@pytest.mark.conformance("BND-10")
@pytest.mark.parametrize("fields", [{"idle_heartbeat": SECOND}, {"idle_heartbeat": SECOND, "flow_control": True}])
async def test_a_queue_does_not_bind_to_a_consumer_with_heartbeats(ground: Ground, fields: dict[str, Any]) -> None:
    stream = await ground.stream()
    await push_consumer(ground, stream, deliver_group="g", **fields)
    with pytest.raises(QueueFeatureError):
        await ground.js.subscribe(f"{stream.name}.a", "g", durable="c")


@pytest.mark.conformance("BND-11")
async def test_the_configuration_of_the_consumer_applies_if_the_caller_set_nothing(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        await push_consumer(
            ground,
            stream,
            idle_heartbeat=timedelta(milliseconds=100),
            ack_policy="none",
            max_ack_pending=None,
            deliver_subject=own.nc.new_inbox(),
        )
        await ground.fill(f"{stream.name}.a", b"1")
        subscription = await own.js.subscribe_bind(stream.name, consumer="c")
        assert (await subscription.next_msg(5)).settled
        await ground.js.delete_consumer(stream.name, "c")
        await reported_error(own.events, MissedHeartbeatError)
        await subscription.unsubscribe()


@pytest.mark.conformance("BND-11")
@pytest.mark.profiles
async def test_a_bound_consumer_is_read_on_its_deliver_subject_with_flow_control(
    ground: Ground,
) -> None:
    stream = await ground.stream()
    theirs = ground.nc.new_inbox()
    await push_consumer(ground, stream, deliver_subject=theirs, flow_control=True, idle_heartbeat=5 * SECOND)
    spy = await ground.spy("$JS.FC.>")
    subscription = await ground.js.subscribe_bind(stream.name, consumer="c")
    assert subscription.subject == theirs
    await ground.nc.flush()  # the server has noticed it
    await ground.inject(theirs, b"NATS/1.0 100 FlowControl Request\r\n\r\n", reply="$JS.FC.forged")
    assert [message.subject for message in await spy.wait(1)] == ["$JS.FC.forged"]
    await subscription.unsubscribe()
