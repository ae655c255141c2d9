"""Long control lines, too many subscriptions and large messages fail alone; the connection stays."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.driver.frames import ClientFrame, Pub, Sub
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    ConnectError,
    Error,
    MaxControlLineError,
    MaxPayloadError,
    MaxSubscriptionsError,
    PermissionsViolationError,
    SubscriptionClosedError,
)
from jetspark.wire.events import Disconnected, ErrorOccurred


def line_of(frame: ClientFrame) -> str:
    if isinstance(frame, Sub):
        return " ".join((frame.subject, *((frame.queue,) if frame.queue else ()), frame.sid))
    if isinstance(frame, Pub):
        return " ".join((frame.subject, *((frame.reply,) if frame.reply else ()), str(len(frame.payload))))
    return ""


def limit_lines(server: MemoryServer, limit: int) -> None:
    """Let a server close a session with a longer control line, as nats-server does."""
    handle = server.handle

    def check(session: Session, frame: ClientFrame) -> None:
        if len(line_of(frame)) > limit:
            session.error("maximum control line exceeded")
            session.close()
        else:
            handle(session, frame)

    server.handle = check  # type: ignore[method-assign]


def limit_subscriptions(server: MemoryServer, limit: int) -> None:
    """Let a server refuse further subscriptions, as nats-server does."""
    handle = server.handle

    def check(session: Session, frame: ClientFrame) -> None:
        if isinstance(frame, Sub) and len(session.subs) > limit:
            del session.subs[frame.sid]
            session.error("maximum subscriptions exceeded")
        else:
            handle(session, frame)

    server.handle = check  # type: ignore[method-assign]


async def test_a_subscription_with_a_long_line_is_refused_before_it_is_sent(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_lines(server, 4096)
    connection = await world.connect()
    await connection.subscribe("a" * 4094)
    with pytest.raises(MaxControlLineError, match="4097 bytes"):
        await connection.subscribe("b" * 4095)
    with pytest.raises(MaxControlLineError):
        await connection.subscribe("b" * 2100, queue="q" * 2100)
    await clock.until(60)
    assert len(server.sessions) == 1


async def test_a_publish_with_a_long_line_fails_alone(world: World, server: MemoryServer, clock: Clock) -> None:
    limit_lines(server, 4096)
    connection = await world.connect()
    await connection.publish("a" * 4094)
    await connection.publish("a" * 2000, reply="r" * 2093)
    for subject, reply in (("a" * 4095, ""), ("a" * 2000, "r" * 2094)):
        with pytest.raises(MaxControlLineError):
            await connection.publish(subject, reply=reply)
        with pytest.raises(MaxControlLineError):
            await connection.publish(subject, reply=reply, headers={"a": "b"})
    with pytest.raises(MaxControlLineError):
        await connection.request("a" * 4080, timeout=1)
    with pytest.raises(MaxControlLineError):
        await connection.jetstream().publish("a" * 4080)
    with pytest.raises(MaxControlLineError):
        await connection.jetstream().publish_async("a" * 4090)
    await clock.settle()
    assert len(server.session.published()) == 2
    assert len(server.sessions) == 1


async def test_no_answer_is_sent_to_a_reply_subject_that_is_too_long(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_lines(server, 4096)
    connection = await world.connect()
    subscription = await connection.subscribe("a")
    await clock.settle()
    for reply in ("r" * 4095, "$JS.ACK." + "r" * 4088):
        server.session.deliver("a", b"x", reply=reply)
        received = await subscription.next_msg(1)
        with pytest.raises(Error):
            await received.respond(b"x")
        with pytest.raises(Error):
            await received.ack()
    await clock.settle()
    assert len(server.sessions) == 1


@pytest.mark.parametrize("longest", [3, 0])
async def test_a_server_with_a_lower_limit_ends_only_the_subscriptions_over_it(
    world: World, server: MemoryServer, clock: Clock, longest: int
) -> None:
    limit_lines(server, 512)
    connection = await world.connect()
    subjects = [f"{name}{'x' * size}" for name, size in zip("abcd", (600, 1, 500, 700), strict=True)]
    subjects[0], subjects[longest] = subjects[longest], subjects[0]
    subscriptions = [await connection.subscribe(subject) for subject in subjects]
    await clock.until(60)
    assert len(server.sessions) == 3
    ended = [each for each in subscriptions if each.closed]
    assert sorted(each.subject for each in ended) == sorted(subject for subject in subjects if len(subject) > 511)
    for each in ended:
        with pytest.raises(MaxControlLineError, match=each.subject[:50]):
            await each.next_msg(1)
    named = [str(event.error) for event in world.events.of(ErrorOccurred)]
    assert ["subscription to" in text for text in named] == [True, True]
    with pytest.raises(MaxControlLineError):
        await connection.subscribe("y" * 650)  # the limit is known now
    assert len(server.sessions) == 3


async def test_a_publish_over_a_lower_limit_ends_no_subscription_and_is_named(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_lines(server, 512)
    connection = await world.connect()
    subscription = await connection.subscribe("s" * 500)
    await connection.publish("p" * 600)
    await clock.until(60)
    assert len(server.sessions) == 2
    assert not subscription.closed
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, MaxControlLineError)
    assert "message on 'ppp" in str(event.error)
    [lost] = world.events.of(Disconnected)
    assert lost.error is event.error
    with pytest.raises(MaxControlLineError):
        await connection.publish("p" * 600)


async def test_a_server_that_calls_every_publish_too_long_gets_few_connections(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_lines(server, 150)
    connection = await world.connect()
    for second in range(600):
        server.info["server_id"] = f"ID{second}"  # so no limit is known
        with suppress(MaxControlLineError):
            await connection.publish("p" * 300)
        await clock.until(second / 10)
    assert len(server.sessions) < 30


async def test_a_connect_line_that_is_too_long_is_an_error_of_the_connect(world: World, server: MemoryServer) -> None:
    server.rejects = "maximum control line exceeded"
    with pytest.raises(ConnectError, match="CONNECT line"):
        await world.connect(token="t" * 5000)


async def test_another_server_with_the_usual_limit_is_not_held_to_a_lower_one(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    handle = server.handle
    limit_lines(server, 512)
    connection = await world.connect()
    await connection.publish("p" * 600)
    await clock.until(10)
    server.handle = handle  # type: ignore[method-assign]
    server.info["server_id"] = "ANOTHER"
    server.session.close()
    await clock.until(20)
    await connection.publish("p" * 600)
    await clock.settle()
    assert [pub.subject for pub in server.session.published()] == ["p" * 600]


async def test_the_limit_of_the_servers_is_an_option(world: World, server: MemoryServer, clock: Clock) -> None:
    limit_lines(server, 8192)
    connection = await world.connect(max_control_line=8192)
    subscription = await connection.subscribe("a" * 8000)
    await connection.publish("a" * 8000, b"x")
    assert (await subscription.next_msg(1)).payload == b"x"
    with pytest.raises(MaxControlLineError):
        await connection.subscribe("a" * 8191)


async def test_subscriptions_over_the_maximum_end_with_an_error_that_names_them(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_subscriptions(server, 3)
    connection = await world.connect()
    subscriptions = [await connection.subscribe(f"a.{number}") for number in range(6)]
    await clock.until(1)
    assert [each.closed for each in subscriptions] == [False] * 3 + [True] * 3
    for each in subscriptions[3:]:
        with pytest.raises(MaxSubscriptionsError, match=f"{each.subject!r}"):
            await each.next_msg(1)
    assert [type(event.error) for event in world.events.of(ErrorOccurred)] == [MaxSubscriptionsError] * 3
    await connection.publish("a.0", b"x")
    assert (await subscriptions[0].next_msg(1)).payload == b"x"
    server.session.close()
    await clock.until(2)
    assert len(server.session.subs) == 3
    await subscriptions[0].unsubscribe()
    again = await connection.subscribe("a.9")
    await clock.until(3)
    assert not again.closed
    assert len(world.events.of(ErrorOccurred)) == 3


async def test_a_request_fails_if_its_inbox_is_over_the_maximum(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    limit_subscriptions(server, 1)
    connection = await world.connect()
    await connection.subscribe("a")
    server.on("ask", lambda session, pub: None)
    with pytest.raises(MaxSubscriptionsError):
        await connection.request("ask", timeout=10)
    assert clock.now < 1
    assert len(server.sessions) == 1


async def test_a_subscription_with_too_many_tokens_ends_alone(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    refused, kept = await connection.subscribe("a.b.c.d"), await connection.subscribe("a")
    await clock.settle()
    server.session.error('Permissions Violation for Subscription to "a.b.c.d", too many tokens')
    await clock.until(60)
    assert refused.closed
    assert not kept.closed
    with pytest.raises((PermissionsViolationError, SubscriptionClosedError)):
        await refused.next_msg(1)
    assert len(server.sessions) == 1


@pytest.mark.parametrize("kind", ["payload", "line"])
async def test_a_message_that_waits_and_does_not_fit_the_next_server_fails_alone(
    world: World, server: MemoryServer, clock: Clock, kind: str
) -> None:
    connection = await world.connect(reconnect_wait=1)
    subject, payload = ("big", b"x" * 2000) if kind == "payload" else ("p" * 600, b"x")
    js = connection.jetstream()
    server.down()
    await clock.settle()
    await connection.publish(subject, payload)
    future = await js.publish_async(subject, payload)
    small = await js.publish_async("small", b"x")
    server.respond("small", b'{"stream":"S","seq":1}')
    server.info["max_payload"] = 1000
    server.info["server_id"] = "SMALLER"
    if kind == "line":
        connection._core.client.options = connection._core.client.options.of(
            connection._core.client.options, max_control_line=512
        )
    server.up()
    await clock.until(5)
    with pytest.raises(MaxPayloadError if kind == "payload" else MaxControlLineError):
        await future
    assert (await small).sequence == 1
    assert len(server.sessions) == 2
    assert [pub.subject for pub in server.session.published()] == ["small"]
    assert len(world.events.of(ErrorOccurred)) >= 2
