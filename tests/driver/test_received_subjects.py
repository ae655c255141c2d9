"""Nothing is published to a received subject that is not legal, or that belongs to an API or to the system."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.driver.fetching import handle
from tests.driver.frames import header_block, message
from tests.driver.jetstream import ConsumerScript
from tests.driver.pushing import bound, take
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import BadSubjectError, Error, InvalidReplyError
from jetspark.wire.events import ErrorOccurred

DELETE = "$JS.API.STREAM.DELETE.ORDERS"
BAD = {
    "API": DELETE,
    "API of a domain": "$JS.hub.API.STREAM.DELETE.ORDERS",
    "API of a domain like an ack": "$JS.ACK.API.STREAM.DELETE.ORDERS",
    "system": "$SYS.REQ.SERVER.PING",
    "line feed": f"$JS.FC.a 0\n\nPUB {DELETE} 0",
    "carriage return": "$JS.FC.a\rb",
    "tab": "$JS.FC.a\tb",
    "wildcard": "$JS.FC.>",
    "empty token": "$JS.FC..a",
    "not ASCII digits": "$JS.FC.\udcff",
}


def published(server: MemoryServer, since: int) -> list[str]:
    return [pub.subject for pub in server.session.published()[since:]]


def raw_heartbeat(stalled: str) -> bytes:
    header = header_block("100 Idle Heartbeat", {"Nats-Consumer-Stalled": "STALLED"})
    return header.replace(b"STALLED", stalled.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("subject", BAD.values(), ids=BAD)
async def test_a_heartbeat_cannot_choose_an_api_to_publish_to(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock, subject: str
) -> None:
    subscription = await bound(world)
    since = len(server.session.published())
    server.session.deliver_raw(pusher.deliver_subject, b"", "", raw_heartbeat(subject))
    await clock.settle()
    assert published(server, since) == []
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, BadSubjectError)
    assert "'pusher'" in str(event.error)
    pusher.push(b"1")
    assert await take(subscription, 1) == [b"1"]


@pytest.mark.parametrize("subject", [DELETE, "$SYS.REQ.SERVER.PING", "a.>", "a..b", "a\tb", "a\rb"], ids=repr)
async def test_a_flow_control_request_cannot_choose_an_api_to_publish_to(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock, subject: str
) -> None:
    subscription = await bound(world)
    since = len(server.session.published())
    pusher.push(b"1")
    pusher.ask_flow(subject)
    assert await take(subscription, 1) == [b"1"]
    await clock.settle()
    assert published(server, since) == []
    assert [type(event.error) for event in world.events.of(ErrorOccurred)] == [BadSubjectError]


async def test_flow_control_is_answered_whatever_the_form_of_its_legal_subject(
    world: World, pusher: ConsumerScript, server: MemoryServer, clock: Clock
) -> None:
    _subscription = await bound(world)
    since = len(server.session.published())
    pusher.ask_flow("acme.flow.1")
    pusher.heartbeat(stalled="$X.FC.2")
    await clock.settle()
    assert published(server, since) == ["acme.flow.1", "$X.FC.2"]


RESPOND: dict[str, Callable[[aio.Msg], Coroutine[Any, Any, None]]] = {
    "respond": lambda message: message.respond(b"x"),
    "respond with headers": lambda message: message.respond(b"x", headers={"a": "b"}),
    "ack": lambda message: message.ack(),
    "ack_sync": lambda message: message.ack_sync(timeout=1),
    "nak": lambda message: message.nak(),
    "nak with a delay": lambda message: message.nak(1),
    "term": lambda message: message.term("no use"),
    "in_progress": lambda message: message.in_progress(),
}


@pytest.mark.parametrize(
    "reply",
    [
        DELETE,
        "$JS.hub.API.STREAM.DELETE.ORDERS",
        "$JS.ACK.API.STREAM.DELETE.ORDERS",
        "$JS.ACK.S.c\tx.1.1.1.1.0",
        "$JS.ACK.S.c\rx.1.1.1.1.0",
        "$JS.ACK.S.>",
        "$JS.ACK.S..1.1.1.1.0",
        "$SYS.REQ.SERVER.PING",
        "acme.JS.API.STREAM.DELETE.ORDERS",
        "a.\udcff",
    ],
    ids=repr,
)
@pytest.mark.parametrize("answer", RESPOND.values(), ids=RESPOND)
async def test_no_answer_goes_to_a_reply_subject_of_an_api(
    world: World,
    server: MemoryServer,
    clock: Clock,
    answer: Callable[[aio.Msg], Coroutine[Any, Any, None]],
    reply: str,
) -> None:
    connection = await world.connect()
    connection.jetstream(prefix="acme.JS.API")
    subscription = await connection.subscribe("a")
    await clock.settle()
    [sub] = server.session.subs.values()
    frame = message("a", sub.sid, b"hello", "REPLY").replace(b"REPLY", reply.encode("utf-8", "surrogateescape"))
    server.session.send(frame)
    received = await subscription.next_msg(1)
    with pytest.raises(Error):
        await answer(received)
    await clock.settle()
    assert server.session.published() == []
    assert connection.connected


async def test_a_request_is_answered_with_and_without_headers(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    server.session.deliver("a", reply="_INBOX.x.1")
    received = await subscription.next_msg(1)
    await received.respond(memoryview(b"1"))
    await received.respond(b"2", headers={"a": "b"})
    await clock.settle()
    assert [(pub.subject, pub.payload) for pub in server.session.published()] == [
        ("_INBOX.x.1", b"1"),
        ("_INBOX.x.1", b"2"),
    ]


async def test_messages_with_the_reply_of_an_api_are_not_reported_as_in_progress(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    worker.config["ack_wait"] = 10_000_000_000
    context = (await handle(world)).consume(max_messages=10, auto_in_progress=True)
    await clock.settle()
    since = len(server.session.published())
    server.session.deliver_raw("orders.a", b"x", DELETE, b"", to=worker.pull.request.reply)
    await clock.until(30)
    assert DELETE not in published(server, since)
    await context.stop()


@pytest.mark.parametrize("subject", [">", "$JS.>", "a b", "a\r\nPUB x 0"], ids=repr)
async def test_the_api_cannot_make_a_push_subscription_listen_to_more_than_a_literal_subject(
    world: World, server: MemoryServer, pusher: ConsumerScript, subject: str
) -> None:
    pusher.config["deliver_subject"] = subject
    before = len(server.sessions)
    with pytest.raises(BadSubjectError):
        await bound(world)
    assert subject not in server.session.subjects
    assert len(server.sessions) == before + 1


# -- names in answers of the API ---------------------------------------------------------------------------------------


async def test_an_answer_about_another_stream_is_refused(world: World, worker: ConsumerScript) -> None:
    context = await world.jetstream()
    worker.js.answer("STREAM.INFO.ORDERS", {**worker.js.stream("OTHER").info})
    with pytest.raises(InvalidReplyError, match="'OTHER', not 'ORDERS'"):
        await context.stream("ORDERS")


@pytest.mark.parametrize("fields", [{"name": "other"}, {"stream_name": "OTHER"}, {"name": "a b"}, {"name": ">"}])
async def test_an_answer_about_another_consumer_is_refused(
    world: World, worker: ConsumerScript, fields: dict[str, str]
) -> None:
    context = await world.jetstream()
    for endpoint in ("CONSUMER.INFO.>", "CONSUMER.CREATE.>"):
        worker.js.answer(endpoint, {**worker.info, **fields})
    with pytest.raises(InvalidReplyError):
        await context.consumer("ORDERS", "worker")
    with pytest.raises(InvalidReplyError):
        await context.create_consumer("ORDERS", durable_name="worker")
    with pytest.raises(InvalidReplyError):
        await context.pull_subscribe_bind("ORDERS", "worker")


@pytest.mark.parametrize("name", ["", ">", "a.b", "a b", "a\r\nPUB x 0", "x" * 300], ids=repr)
async def test_a_name_that_the_server_chose_must_be_usable(
    world: World, worker: ConsumerScript, server: MemoryServer, name: str
) -> None:
    context = await world.jetstream()
    worker.js.answer("CONSUMER.CREATE.>", {**worker.info, "name": name})
    with pytest.raises(Error):
        await context.create_consumer("ORDERS")
    assert len(server.sessions) == 1


@pytest.mark.parametrize("name", [">", "a.b", "a b", "a\r\nPUB x 0"], ids=repr)
async def test_the_stream_that_captures_a_subject_must_have_a_usable_name(
    world: World, worker: ConsumerScript, server: MemoryServer, name: str
) -> None:
    context = await world.jetstream()
    worker.js.answer("STREAM.NAMES", {"total": 1, "offset": 0, "limit": 1024, "streams": [name]})
    since = len(server.session.published())
    with pytest.raises(BadSubjectError):
        await context.pull_subscribe("orders.a")
    with pytest.raises(BadSubjectError):
        await context.subscribe("orders.a")
    assert set(published(server, since)) == {"$JS.API.STREAM.NAMES"}
