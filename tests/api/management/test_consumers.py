"""Consumers are created, changed, found, listed, paused and deleted, from the context and from the stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.fronts import PROFILES, FrontName, Ground, eventually, open_ground

from jetspark import aio
from jetspark.aio.jetstream import Consumer, JetStream, Stream
from jetspark.errors import (
    APIError,
    ConfigError,
    ConsumerCreateError,
    ConsumerDoesNotExistError,
    ConsumerExistsError,
    ConsumerNameInUseError,
    ConsumerNotFoundError,
    InvalidPriorityGroupError,
    MaximumConsumersError,
    NotPullConsumerError,
    RequestTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy, Duration, PriorityPolicy, Timestamp
from jetspark.server import NatsServer

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)


class Side:
    """The consumer operations of the context or of the stream (STM-01), under the same names."""

    def __init__(self, js: JetStream, stream: Stream, side: str) -> None:
        self.stream = stream
        self._js = js
        self._side = side

    def __getattr__(self, name: str) -> Any:
        if self._side == "stream":
            return getattr(self.stream, name)
        return lambda *args, **kwargs: getattr(self._js, name)(self.stream.name, *args, **kwargs)


@pytest.fixture(params=["context", "stream"])
async def side(ground: Ground, request: pytest.FixtureRequest) -> Side:
    return Side(ground.js, await ground.stream(), request.param)


@pytest.mark.conformance("MGT-07", "STM-01")
@pytest.mark.profiles
async def test_a_consumer_is_created_from_a_configuration_or_its_fields(side: Side) -> None:
    config = ConsumerConfig(durable_name="one", filter_subject=f"{side.stream.name}.a", ack_wait=timedelta(seconds=3))
    one = await side.create_consumer(config)
    assert isinstance(one, aio.jetstream.Consumer)
    assert (one.name, one.stream_name) == ("one", side.stream.name)
    assert one.cached_info.config.ack_wait == timedelta(seconds=3)
    assert one.cached_info.config.ack_policy is AckPolicy.EXPLICIT
    other = await side.create_consumer(config, durable_name="other", ack_policy="all")
    assert other.cached_info.config.filter_subject == f"{side.stream.name}.a"
    assert other.cached_info.config.ack_policy is AckPolicy.ALL
    with pytest.raises(ConfigError, match="filter_subject"):
        await side.create_consumer(filter_subjects="a")
    with pytest.raises(ConfigError, match="must be equal"):
        await side.create_consumer(name="a", durable_name="b")


@pytest.mark.conformance("MGT-07", "STM-01")
async def test_creating_the_same_consumer_again_succeeds_and_a_different_one_fails(side: Side) -> None:
    made = await side.create_consumer(durable_name="C")
    again = await side.create_consumer(durable_name="C")
    assert again.cached_info.created == made.cached_info.created
    with pytest.raises(ConsumerExistsError) as caught:
        await side.create_consumer(durable_name="C", max_deliver=3)
    assert caught.value.err_code == 10148
    assert (await made.info()).config.max_deliver == -1


@pytest.mark.conformance("MGT-08", "STM-01")
@pytest.mark.blocking
async def test_an_update_changes_the_consumer_or_names_the_error(side: Side) -> None:
    with pytest.raises(ConsumerDoesNotExistError) as missing:
        await side.update_consumer(durable_name="C")
    assert missing.value.err_code == 10149
    with pytest.raises(ConfigError, match="name of the consumer"):
        await side.update_consumer(max_deliver=3)
    made = await side.create_consumer(durable_name="C")
    changed = await side.update_consumer(made.cached_info.config, max_deliver=3)
    assert changed.cached_info.config.max_deliver == 3
    with pytest.raises(ConsumerCreateError) as forbidden:
        await side.update_consumer(durable_name="C", deliver_policy=DeliverPolicy.NEW)
    assert (forbidden.value.code, forbidden.value.err_code) == (500, 10012)


@pytest.mark.conformance("MGT-08")
@pytest.mark.profiles
async def test_a_bound_push_consumer_keeps_its_deliver_subject(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream()
    inbox = ground.admin.new_inbox()
    _interest = await ground.admin.subscribe(inbox)
    await ground.admin.flush()
    made = await js.create_consumer(stream.name, durable_name="C", deliver_subject=inbox)
    assert (await made.info()).push_bound
    with pytest.raises(ConsumerNameInUseError) as caught:
        await js.update_consumer(stream.name, made.cached_info.config, deliver_subject=ground.admin.new_inbox())
    assert caught.value.err_code == 10013


@pytest.mark.conformance("MGT-09", "STM-01")
@pytest.mark.blocking
async def test_create_or_update_creates_or_updates(ground: Ground, side: Side) -> None:
    spy = await ground.spy(f"$JS.API.CONSUMER.CREATE.{side.stream.name}.>")
    made = await side.create_or_update_consumer(durable_name="C")
    changed = await side.create_or_update_consumer(durable_name="C", max_deliver=3)
    assert changed.cached_info.created == made.cached_info.created
    assert changed.cached_info.config.max_deliver == 3
    assert all(b'"action"' not in message.payload for message in await spy.wait(2))


@pytest.mark.conformance("MGT-09", "STM-01")
async def test_a_consumer_without_name_gets_a_generated_one(side: Side) -> None:
    calls: list[Callable[[], Coroutine[object, object, Consumer]]] = [
        side.create_consumer,
        side.create_or_update_consumer,
    ]
    made = [await call() for call in (*calls, *calls)]
    assert len({consumer.name for consumer in made}) == 4
    assert sorted(await side.consumer_names().all()) == sorted(consumer.name for consumer in made)
    assert made[0].cached_info.config.durable_name is None
    assert made[0].cached_info.config.inactive_threshold == timedelta(seconds=5)


@pytest.mark.conformance("MGT-10", "STM-01")
@pytest.mark.parametrize(
    ("fields", "err_code"),
    [
        ({"filter_subject": "a", "filter_subjects": ["b"]}, 10136),
        ({"filter_subjects": ["{}.a", "{}.>"]}, 10138),
        ({"filter_subjects": ["{}.a", ""]}, 10139),
    ],
)
async def test_invalid_filters_are_refused(side: Side, fields: dict[str, Any], err_code: int) -> None:
    name = side.stream.name
    given = {
        key: [each.format(name) for each in value] if isinstance(value, list) else value.format(name)
        for key, value in fields.items()
    }
    for call in (side.create_consumer, side.create_or_update_consumer):
        with pytest.raises(APIError) as caught:
            await call(durable_name="C", **given)
        assert caught.value.err_code == err_code


@pytest.mark.conformance("MGT-07", "MGT-08", "MGT-09", "STM-01")
@pytest.mark.parametrize("pattern", ["{}.>", "{}.*.a", "*.a"])
async def test_a_filter_may_have_wildcards(ground: Ground, side: Side, pattern: str) -> None:
    """The filter ends the subject of the request (CRE-03). A message cannot have such a subject."""
    wanted = pattern.format(side.stream.name)
    spy = await ground.spy(f"$JS.API.CONSUMER.CREATE.{side.stream.name}.>")
    made = await side.create_consumer(durable_name="C", filter_subject=wanted)
    assert made.cached_info.config.filter_subject == wanted
    await side.update_consumer(made.cached_info.config, max_deliver=3)
    await side.create_or_update_consumer(made.cached_info.config, max_deliver=4)
    await side.create_consumer(filter_subjects=[wanted, "b.>"])
    await spy.wait(4)
    assert spy.subjects[:3] == [f"$JS.API.CONSUMER.CREATE.{side.stream.name}.C.{wanted}"] * 3
    assert (await made.info()).config.max_deliver == 4


@pytest.mark.conformance("MGT-10")
async def test_a_stream_refuses_consumers_above_its_limit(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream(max_consumers=1)
    await stream.create_consumer(durable_name="one")
    with pytest.raises(MaximumConsumersError) as caught:
        await js.create_consumer(stream.name, durable_name="two")
    assert caught.value.err_code == 10026


async def _pending(handle: Consumer, count: int) -> bool:
    """Return the number of pending messages. Consumers count a message after its stream has acknowledged it."""
    return (await handle.info()).num_pending == count


@pytest.mark.conformance("MGT-11", "STM-01")
async def test_a_consumer_is_found_by_its_name(ground: Ground, side: Side) -> None:
    await side.create_consumer(durable_name="C")
    handle = await side.consumer("C")
    await ground.fill(f"{side.stream.name}.a", b"1")
    assert handle.cached_info.num_pending == 0
    await eventually(partial(_pending, handle, 1))
    assert handle.cached_info.num_pending == 1
    assert (await side.consumer_info("C")).num_pending == 1


@pytest.mark.conformance("MGT-11", "STM-01")
@pytest.mark.blocking
async def test_a_missing_consumer_is_not_found(side: Side) -> None:
    made = await side.create_consumer(durable_name="C")
    await made.delete()
    later = datetime.now(UTC) + timedelta(hours=1)
    calls: list[Callable[[], Coroutine[object, object, object]]] = [
        lambda: side.consumer("C"),
        lambda: side.consumer_info("C"),
        lambda: side.delete_consumer("C"),
        lambda: side.pause_consumer("C", later),
        lambda: side.resume_consumer("C"),
        lambda: side.unpin_consumer("C", "g"),
        lambda: side.reset_consumer("C"),
        made.info,
        made.delete,
    ]
    for call in calls:
        with pytest.raises(ConsumerNotFoundError) as caught:
            await call()
        assert caught.value.err_code == 10014
    await side.stream.delete()
    for call in calls[:3]:
        with pytest.raises(StreamNotFoundError) as gone:
            await call()
        assert gone.value.err_code == 10059
    with pytest.raises(StreamNotFoundError):
        await side.create_consumer(durable_name="C")


@pytest.mark.conformance("MGT-11", "STM-01")
async def test_a_push_consumer_has_no_pull_handle(side: Side) -> None:
    await side.create_consumer(durable_name="C", deliver_subject="somewhere")
    with pytest.raises(NotPullConsumerError) as caught:
        await side.consumer("C")
    assert isinstance(caught.value, TypeError)
    assert (await side.consumer_info("C")).config.deliver_subject == "somewhere"
    await side.delete_consumer("C")


@pytest.mark.conformance("MGT-11", "STM-01")
@pytest.mark.blocking
async def test_a_consumer_pauses_and_resumes(ground: Ground, side: Side) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    handle = await side.create_consumer(durable_name="C")
    paused = await side.pause_consumer("C", until)
    assert (paused.paused, paused.pause_until) == (True, until)
    assert timedelta(minutes=59) < paused.pause_remaining <= timedelta(hours=1)
    assert (await handle.info()).paused
    inbox = ground.admin.new_inbox()
    pull = await ground.admin.subscribe(inbox)
    request = b'{"batch":1,"expires":20000000000,"idle_heartbeat":100000000}'
    await ground.admin.publish(f"{ground.admin_js.prefix}CONSUMER.MSG.NEXT.{side.stream.name}.C", request, reply=inbox)
    status = (await pull.next_msg(10)).status
    assert status is not None
    assert status.code == 100
    resumed = await side.resume_consumer("C")
    assert (resumed.paused, resumed.pause_until) == (False, None)
    assert not (await handle.info()).paused
    assert (await handle.pause(until)).paused
    assert not (await handle.pause(datetime(2000, 1, 1, tzinfo=UTC))).paused
    assert not (await handle.resume()).paused


@pytest.mark.conformance("STM-01")
@pytest.mark.blocking
async def test_a_consumer_is_reset_to_a_sequence(ground: Ground, side: Side) -> None:
    handle = await side.create_consumer(durable_name="C", ack_policy="none")
    await ground.fill(f"{side.stream.name}.a", *(b"%d" % number for number in range(6)))
    inbox = ground.admin.new_inbox()
    taken = await ground.admin.subscribe(inbox, max_msgs=4)
    await ground.admin.publish(f"{ground.admin_js.prefix}CONSUMER.MSG.NEXT.{side.stream.name}.C", b"4", reply=inbox)
    assert [message.payload async for message in taken] == [b"0", b"1", b"2", b"3"]
    await eventually(partial(_pending, handle, 2))
    assert (await side.reset_consumer("C", 2)).num_pending == 5
    reset = await handle.reset(5)
    assert (reset.sequence, reset.num_pending) == (5, 2)
    assert handle.cached_info.num_pending == 2
    assert (await side.reset_consumer("C", 3)).sequence == 3


@pytest.mark.blocking
async def test_a_reset_without_a_sequence_says_where_the_consumer_continues(ground: Ground, side: Side) -> None:
    handle = await side.create_consumer(durable_name="C")
    await ground.fill(f"{side.stream.name}.a", b"1", b"2", b"3")
    for message in await handle.fetch(2):
        await message.ack_sync()
    assert (await handle.reset()).sequence == (await side.reset_consumer("C")).sequence == 3


@pytest.mark.conformance("STM-01")
async def test_a_pinned_client_is_released(ground: Ground, side: Side) -> None:
    handle = await side.create_consumer(
        durable_name="C",
        priority_groups=["g"],
        priority_policy=PriorityPolicy.PINNED_CLIENT,
        priority_timeout=timedelta(minutes=1),
    )
    await ground.fill(f"{side.stream.name}.a", b"1", b"2")
    next_message = f"{ground.admin_js.prefix}CONSUMER.MSG.NEXT.{side.stream.name}.C"
    first = await ground.admin.request(next_message, b'{"batch":1,"group":"g"}', own_inbox=True)
    (group,) = (await handle.info()).priority_groups or []
    assert group.pinned_client_id == first.headers["Nats-Pin-Id"]
    await side.unpin_consumer("C", "g")
    (group,) = (await handle.info()).priority_groups or []
    assert group.pinned_client_id == ""
    await handle.unpin("g")
    with pytest.raises(InvalidPriorityGroupError):
        await side.unpin_consumer("C", "other")


@pytest.mark.conformance("MGT-06", "STM-01")
@pytest.mark.blocking
async def test_consumers_are_listed_by_an_iterator_or_in_one_call(side: Side) -> None:
    names = ["A", "B", "C"]
    for name in names:
        await side.create_consumer(durable_name=name)
    assert sorted([name async for name in side.consumer_names()]) == names
    assert sorted(await side.consumer_names().all()) == names
    assert sorted([info.name async for info in side.consumers()]) == names
    assert sorted(info.name for info in await side.consumers().all()) == names


async def test_r37_a_user_with_permission_for_one_kind_of_consumer_can_create_it(front: FrontName) -> None:
    """R37: the filter is part of the subject of CREATE, so that permissions can control who may read it."""
    allowed = ["$JS.API.CONSUMER.CREATE.S.*.s.a", "$JS.API.STREAM.INFO.S"]
    alice = {"user": "alice", "password": "wonder", "permissions": {"publish": allowed, "subscribe": "_INBOX.>"}}
    admin = {"user": "admin", "password": "rabbit"}
    with NatsServer(config={"authorization": {"users": [alice, admin]}}) as server:
        options = {"user": "alice", "password": "wonder"}
        async with open_ground(front, PROFILES["default"], server, admin_options=admin, **options) as ground:
            await ground.admin_js.create_stream(name="S", subjects=["s.>"])
            stream = await ground.js.stream("S")
            made = await stream.create_consumer(filter_subject="s.a")
            assert made.cached_info.config.filter_subject == "s.a"
            assert (await stream.create_or_update_consumer(durable_name="d", filter_subject="s.a")).name == "d"
            with pytest.raises(PermissionError):
                await stream.create_consumer(filter_subject="s.b")


@_ONE_SERVER
@pytest.mark.blocking
async def test_a_call_accepts_its_own_timeout(ground: Ground) -> None:
    await ground.spy("NOBODY.>")
    js = ground.nc.jetstream(prefix="NOBODY", timeout=30)
    calls: list[Coroutine[object, object, object]] = [
        js.create_consumer("S", timeout=0.05),
        js.consumer("S", "C", timeout=0.05),
        js.delete_consumer("S", "C", timeout=0.05),
        js.account_info(timeout=0.05),
        js.create_or_update_stream(name="S", timeout=0.05),
        js.streams(timeout=0.05).all(),
        js.consumer_names("S", timeout=0.05).all(),
    ]
    for call in calls:
        with pytest.raises(RequestTimeoutError, match=r"0\.05 s"):
            await call


@pytest.mark.conformance("WIR-08", "CFG-06")
async def test_values_are_sent_exactly_and_unset_fields_are_not_sent(ground: Ground) -> None:
    stream = await ground.stream()
    spy = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    moment = Timestamp.from_ns(1_700_000_000_123_456_789)
    sent = await stream.create_consumer(
        durable_name="seq",
        deliver_policy="by_start_sequence",
        opt_start_seq=2**63 + 1,
        ack_wait=timedelta(seconds=1.5),
        backoff=[timedelta(seconds=1.5), Duration.from_ns(2_000_000_001)],
        max_deliver=3,
    )
    timed = await stream.create_consumer(durable_name="time", deliver_policy="by_start_time", opt_start_time=moment)
    first, second = (json.loads(message.payload)["config"] for message in await spy.wait(2))
    assert first == {
        "name": "seq",
        "durable_name": "seq",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 2**63 + 1,
        "ack_policy": "explicit",
        "ack_wait": 1_500_000_000,
        "backoff": [1_500_000_000, 2_000_000_001],
        "max_deliver": 3,
    }
    assert second["opt_start_time"] == "2023-11-14T22:13:20.123456789Z"
    config = (await sent.info()).config
    assert (config.opt_start_seq, config.ack_wait) == (2**63 + 1, timedelta(seconds=1.5))
    assert config.backoff == [timedelta(seconds=1.5), Duration.from_ns(2_000_000_001)]
    assert (await timed.info()).config.opt_start_time == moment
