"""How a subscription creates its consumer, how races end, and queue groups."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from tests.api.management.fake import fake_api
from tests.api.sieve import Sieve
from tests.api.subscribing.support import gone, live, side
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.aio.jetstream import PushSubscription
from jetspark.errors import (
    APIError,
    BadNameError,
    ConsumerExistsError,
    ConsumerNotFoundError,
    JetStreamNotEnabledError,
    MaximumConsumersError,
    NotPushConsumerError,
    RequestTimeoutError,
)
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.server import NatsServer


@pytest.mark.conformance("CRE-01")
@pytest.mark.profiles
async def test_the_client_subscribes_before_it_creates_the_consumer(ground: Ground) -> None:
    stream = await ground.stream()
    async with Sieve(ground.server.port) as proxy, side(ground, proxy.url) as own:
        await own.js.subscribe(f"{stream.name}.a", durable="d")
        said = bytes(proxy.said)
        inbox = (await ground.js.consumer_info(stream.name, "d")).config.deliver_subject
        assert inbox is not None
        assert 0 < said.index(f"SUB {inbox} ".encode()) < said.index(b"CONSUMER.CREATE.")


@pytest.mark.conformance("CRE-02", "CRE-03", "CRE-05")
async def test_a_new_push_consumer_has_the_documented_defaults(ground: Ground) -> None:
    stream = await ground.stream()
    spy = await ground.spy("$JS.API.CONSUMER.CREATE.>")
    subscription = await ground.js.subscribe(f"{stream.name}.a", "g", durable="d")
    config = (await subscription.consumer_info()).config
    assert (config.filter_subject, config.deliver_group) == (f"{stream.name}.a", "g")
    assert (config.deliver_policy, config.ack_policy) == (DeliverPolicy.ALL, AckPolicy.EXPLICIT)
    assert (config.replay_policy, config.deliver_subject) == (ReplayPolicy.INSTANT, subscription.subject)
    [request] = await spy.settled()
    assert request.subject.endswith(f".CONSUMER.CREATE.{stream.name}.d.{stream.name}.a")
    body = json.loads(request.payload)
    assert (body["action"], body["stream_name"]) == ("create", stream.name)


@pytest.mark.conformance("CRE-02", "CRE-03", "PUL-13")
async def test_a_new_pull_consumer_has_no_deliver_subject_and_is_durable_only_on_request(ground: Ground) -> None:
    stream = await ground.stream()
    own = await ground.js.pull_subscribe(f"{stream.name}.a")
    config = (await own.consumer_info()).config
    assert (config.deliver_subject, config.durable_name, config.name) == (None, None, own.consumer)
    named = await ground.js.pull_subscribe(f"{stream.name}.a", "d")
    assert (await named.consumer_info()).config.durable_name == "d"


@pytest.mark.conformance("CRE-02", "CRE-03")
async def test_fields_of_the_caller_are_kept_and_several_filters_stay_out_of_the_subject(ground: Ground) -> None:
    stream = await ground.stream()
    inbox = ground.nc.new_inbox()
    spy = await ground.spy("$JS.API.CONSUMER.CREATE.>")
    filters = [f"{stream.name}.a", f"{stream.name}.b"]
    config = ConsumerConfig(
        filter_subjects=filters, deliver_subject=inbox, ack_policy=AckPolicy.ALL, deliver_policy=DeliverPolicy.LAST
    )
    subscription = await ground.js.subscribe(f"{stream.name}.*", config=config)
    made = (await subscription.consumer_info()).config
    assert (made.filter_subjects, made.filter_subject, made.deliver_subject) == (filters, None, inbox)
    assert (made.ack_policy, made.deliver_policy) == (AckPolicy.ALL, DeliverPolicy.LAST)
    [request] = await spy.settled()
    assert request.subject.endswith(f".CONSUMER.CREATE.{stream.name}.{subscription.consumer}")


@pytest.mark.conformance("CRE-04")
@pytest.mark.blocking
async def test_a_consumer_without_name_gets_one_and_is_removed_soon_when_unused(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1")
    push = await ground.js.subscribe(f"{stream.name}.a")
    pull = await ground.js.pull_subscribe(f"{stream.name}.a")
    assert {push.consumer, pull.consumer} == set(await ground.js.consumer_names(stream.name).all())
    for subscription in (push, pull):
        info = await subscription.consumer_info()
        assert (info.name, info.config.inactive_threshold) == (subscription.consumer, timedelta(seconds=5))
    assert [message.payload for message in await pull.fetch(1)] == [b"1"]
    await push.unsubscribe()
    await pull.unsubscribe()
    assert await ground.js.consumer_names(stream.name).all() == []


@pytest.mark.conformance("CRE-09")
@pytest.mark.blocking
async def test_the_initial_pending_count_is_on_the_subscription(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(7)))
    push = await ground.js.subscribe(f"{stream.name}.a")
    pull = await ground.js.pull_subscribe(f"{stream.name}.a", "d")
    assert (push.initial_pending, pull.initial_pending) == (7, 7)
    assert (await ground.js.pull_subscribe(f"{stream.name}.a", "d")).initial_pending == 7


@pytest.mark.conformance("CRE-07")
async def test_a_creation_without_an_answer_leaves_no_subscription(ground: Ground) -> None:
    stream = await ground.stream()
    silent = await ground.admin.subscribe("$JS.silent.API.>")
    await ground.admin.flush()
    before = live(ground.nc)
    with pytest.raises(RequestTimeoutError):
        await ground.nc.jetstream(domain="silent", timeout=0.1).subscribe("a", stream=stream.name)
    assert live(ground.nc) == before
    await silent.unsubscribe()


@pytest.mark.conformance("CRE-07")
async def test_a_refused_creation_leaves_no_subscription(ground: Ground) -> None:
    stream = await ground.stream(max_consumers=1)
    await ground.js.create_consumer(stream.name, durable_name="one")
    before = live(ground.nc)
    with pytest.raises(MaximumConsumersError):
        await ground.js.subscribe(f"{stream.name}.a")
    with pytest.raises(JetStreamNotEnabledError, match="503"):
        await ground.nc.jetstream(domain="nowhere").subscribe("a", stream=stream.name)
    assert live(ground.nc) == before


@pytest.mark.parametrize("profile", ["default"], indirect=True)
@pytest.mark.parametrize("front", ["aio"], indirect=True)  # a blocking call is not cancelled from outside
@pytest.mark.parametrize("kind", ["push", "pull"])
@pytest.mark.parametrize("taken", [False, True])
async def test_a_call_that_is_cancelled_during_the_creation_leaves_no_durable_and_deletes_no_other(
    front: FrontName, profile: Profile, no_leaks: None, kind: str, taken: bool
) -> None:
    with NatsServer(config=profile.config) as server:
        async with (
            open_ground(front, profile, server) as ground,
            Sieve(server.port) as proxy,
            side(ground, proxy.url) as own,
        ):
            stream = await ground.stream()
            if taken:
                await ground.js.create_consumer(stream.name, durable_name="d", max_deliver=7)
            spy = await ground.spy("$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.>")
            call: Any = own.js.subscribe if kind == "push" else own.js.pull_subscribe
            server.pause()
            calling = asyncio.create_task(
                call(f"{stream.name}.a", durable="d", stream=stream.name, skip_consumer_lookup=True)
            )
            await eventually(lambda: b".CONSUMER.CREATE." in proxy.said, what="the creation on its way")
            calling.cancel()
            await asyncio.wait([calling])
            server.resume()
            await spy.wait(1 if taken else 2)
            await own.nc.flush()
            await eventually(lambda: live(own.nc) == 1, what="no subscription but the shared inbox")
            assert calling.cancelled()
            if taken:
                assert (await ground.js.consumer_info(stream.name, "d")).config.max_deliver == 7
            else:
                await eventually(lambda: gone(ground, stream.name, "d"), what="the end of the consumer")
                words = [subject.split(".")[3] for subject in spy.subjects]
                assert words == ["CREATE", "DELETE"]


# -- races -------------------------------------------------------------------------------------------------------------


async def lose_race(ground: Ground, call: Any, stream: str, name: str, **fields: Any) -> Any:
    """Create the consumer between the lookup and the creation of a call, and return the result of the call.

    The lookup is skipped: the requests after it are the same.
    """
    await ground.js.create_consumer(stream, durable_name=name, **fields)
    return await call(skip_consumer_lookup=True)


@pytest.mark.conformance("CRE-05", "CRE-06", "CRE-08")
async def test_a_pull_subscription_that_loses_the_race_binds_and_changes_nothing(ground: Ground) -> None:
    stream = await ground.stream()
    subject = f"{stream.name}.a"

    async def call(**options: Any) -> Any:
        return await ground.js.pull_subscribe(subject, "d", **options)

    subscription = await lose_race(ground, call, stream.name, "d", max_deliver=7, filter_subject=subject)
    assert not subscription.created
    assert (await subscription.consumer_info()).config.max_deliver == 7
    await subscription.unsubscribe()
    assert (await ground.js.consumer_info(stream.name, "d")).name == "d"


@pytest.mark.conformance("CRE-05", "CRE-06")
@pytest.mark.parametrize("bound", [True, False])
async def test_a_queue_member_that_loses_the_race_subscribes_to_the_winners_subject(
    ground: Ground, bound: bool
) -> None:
    stream = await ground.stream()
    theirs = ground.nc.new_inbox()
    if bound:
        listener = await ground.admin.subscribe(theirs, queue="g")
        await ground.admin.flush()

    async def call(**options: Any) -> Any:
        return await ground.js.subscribe(f"{stream.name}.a", "g", durable="d", **options)

    fields = {"deliver_subject": theirs, "deliver_group": "g", "filter_subject": f"{stream.name}.a", "max_deliver": 7}
    member = await lose_race(ground, call, stream.name, "d", **fields)
    assert (member.subject, member.queue, member.created) == (theirs, "g", False)
    await ground.nc.flush()  # the server has noticed it: it has a subscriber all the time
    if bound:
        await listener.unsubscribe()
        await ground.admin.flush()
    await ground.fill(f"{stream.name}.a", b"1")
    assert (await member.next_msg(5)).payload == b"1"
    info = await ground.js.consumer_info(stream.name, "d")
    assert (info.config.deliver_subject, info.config.max_deliver) == (theirs, 7)


@pytest.mark.conformance("CRE-05", "CRE-06")
async def test_a_plain_push_subscription_that_loses_the_race_fails_and_leaves_nothing(ground: Ground) -> None:
    stream = await ground.stream()
    before = live(ground.nc)

    async def call(**options: Any) -> Any:
        return await ground.js.subscribe(f"{stream.name}.a", durable="d", **options)

    theirs = ground.nc.new_inbox()
    with pytest.raises(ConsumerExistsError):
        await lose_race(ground, call, stream.name, "d", deliver_subject=theirs, max_deliver=7)
    assert live(ground.nc) == before
    info = await ground.js.consumer_info(stream.name, "d")
    assert (info.config.deliver_subject, info.config.max_deliver) == (theirs, 7)


@pytest.mark.conformance("CRE-06")
@pytest.mark.parametrize("err_code", [10013, 10105])
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_errors_of_older_servers_after_a_lost_race_are_recognised(ground: Ground, err_code: int) -> None:
    stream = await ground.stream()
    await ground.js.create_consumer(stream.name, durable_name="d", filter_subject=f"{stream.name}.a")
    theirs = await ground.admin.request(f"$JS.API.CONSUMER.INFO.{stream.name}.d")
    refusal = {"error": {"code": 400, "err_code": err_code, "description": "consumer name already in use"}}
    asked: list[str] = []

    def answers(endpoint: str, _payload: bytes) -> list[bytes]:
        asked.append(endpoint.split(".")[1])
        return [json.dumps(refusal).encode() if asked[-1] == "CREATE" else theirs.payload]

    js = await fake_api(ground, answers, timeout=30)  # no request is repeated so soon
    options: dict[str, Any] = {"stream": stream.name, "skip_consumer_lookup": True}
    pull = await js.pull_subscribe(f"{stream.name}.a", "d", **options)
    assert (pull.consumer, pull.created, asked) == ("d", False, ["CREATE", "INFO"])
    with pytest.raises(NotPushConsumerError):
        await js.subscribe(f"{stream.name}.a", durable="d", **options)


@pytest.mark.conformance("CRE-06", "CRE-08")
@pytest.mark.blocking
async def test_exactly_one_of_the_racing_members_created_the_consumer_and_deletes_it(ground: Ground) -> None:
    stream = await ground.stream()
    pulls = await asyncio.gather(*(ground.js.pull_subscribe(f"{stream.name}.a", "d") for _ in range(4)))
    assert sorted(each.created for each in pulls) == [False, False, False, True]
    for attached in (each for each in pulls if not each.created):
        await attached.unsubscribe()
        await ground.js.consumer_info(stream.name, "d")
    await next(each for each in pulls if each.created).unsubscribe()
    with pytest.raises(ConsumerNotFoundError):
        await ground.js.consumer_info(stream.name, "d")
    members = await asyncio.gather(*(ground.js.subscribe(f"{stream.name}.a", "q") for _ in range(4)))
    assert sorted(each.created for each in members) == [False, False, False, True]
    assert len({each.subject for each in members}) == 1


# -- queue groups ------------------------------------------------------------------------------------------------------


async def take_all(members: list[PushSubscription], count: int) -> list[bytes]:
    taken: list[bytes] = []

    async def take(member: PushSubscription) -> None:
        async for message in member:
            taken.append(message.payload)
            await message.ack()

    tasks = [asyncio.create_task(take(member)) for member in members]
    await eventually(lambda: len(taken) >= count, what=f"{count} messages")
    for member in members:
        if not member.created:
            await member.unsubscribe()
    for member in members:
        if member.created:
            await member.unsubscribe()
    await asyncio.gather(*tasks)
    return taken


@pytest.mark.conformance("QUE-01", "QUE-02")
async def test_r32_members_of_a_queue_share_one_consumer_and_each_message_comes_once(ground: Ground) -> None:
    stream = await ground.stream()
    members = [await ground.js.subscribe(f"{stream.name}.a", "workers") for _ in range(3)]
    assert await ground.js.consumer_names(stream.name).all() == ["workers"]
    info = await members[1].consumer_info()
    assert (info.config.durable_name, info.config.deliver_group, info.push_bound) == ("workers", "workers", True)
    assert {member.queue for member in members} == {"workers"}
    sent = [b"%d" % number for number in range(50)]
    await ground.fill(f"{stream.name}.a", *sent)
    assert sorted(await take_all(members, 50)) == sorted(sent)


@pytest.mark.conformance("QUE-01")
async def test_a_queue_that_is_not_a_valid_consumer_name_needs_a_durable(ground: Ground) -> None:
    stream = await ground.stream()
    with pytest.raises(BadNameError):
        await ground.js.subscribe(f"{stream.name}.a", "group.one")
    member = await ground.js.subscribe(f"{stream.name}.a", "group.one", durable="d")
    assert (member.queue, member.consumer) == ("group.one", "d")


@pytest.mark.conformance("QUE-03")
async def test_a_bound_subscription_never_deletes_and_the_creator_does(ground: Ground) -> None:
    stream = await ground.stream()
    creator = await ground.js.subscribe(f"{stream.name}.a", "q")
    attached = await ground.js.subscribe(f"{stream.name}.a", "q")
    await attached.drain()
    assert (await ground.js.consumer_info(stream.name, "q")).name == "q"
    await creator.drain()
    with pytest.raises(ConsumerNotFoundError):
        await ground.js.consumer_info(stream.name, "q")


@pytest.mark.conformance("QUE-03")
async def test_a_queue_on_an_existing_consumer_keeps_it_after_all_members_leave(ground: Ground) -> None:
    stream = await ground.stream()
    fields: dict[str, Any] = {"deliver_subject": ground.nc.new_inbox(), "deliver_group": "q"}
    await ground.js.create_consumer(stream.name, durable_name="q", **fields)
    for member in [await ground.js.subscribe(f"{stream.name}.a", "q") for _ in range(2)]:
        await member.drain()
    assert (await ground.js.consumer_info(stream.name, "q")).name == "q"


async def test_the_error_says_why_a_work_queue_refuses_a_second_consumer(ground: Ground) -> None:
    stream = await ground.stream(retention="workqueue")
    await ground.js.pull_subscribe(f"{stream.name}.a", "d")
    with pytest.raises(APIError) as caught:
        await ground.js.pull_subscribe(f"{stream.name}.a", "e")
    assert caught.value.err_code in {10099, 10100}
