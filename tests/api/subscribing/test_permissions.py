"""Subscriptions of users with few permissions: the inbox prefix, and a filter that permissions name."""

from __future__ import annotations

import pytest
from tests.fronts import Ground, Profile, open_ground

from jetspark.server import NatsServer


async def test_r36_every_inbox_has_the_inbox_prefix(ground: Ground) -> None:
    stream = await ground.stream()
    prefix = ground.nc.new_inbox().split(".")[0]
    spy = await ground.spy("$JS.API.CONSUMER.MSG.NEXT.>")
    push = await ground.js.subscribe(f"{stream.name}.a")
    assert push.subject.startswith(f"{prefix}.")
    await ground.fill(f"{stream.name}.a", b"1")
    assert (await push.next_msg(5)).payload == b"1"
    pull = await ground.js.pull_subscribe(f"{stream.name}.a")
    assert [message.payload for message in await pull.fetch(1)] == [b"1"]
    assert all(message.reply.startswith(f"{prefix}.") for message in await spy.settled())


@pytest.mark.parametrize("profile", ["private_inbox"], indirect=True)
async def test_r37_the_filter_is_part_of_the_subject_for_permissions(ground: Ground) -> None:
    stream = await ground.stream()
    name = stream.name
    api = "$JS.API."
    allowed = [
        f"{api}STREAM.NAMES",
        f"{api}CONSUMER.CREATE.{name}.*.{name}.a",
        f"{api}CONSUMER.DELETE.{name}.*",
        f"{api}CONSUMER.MSG.NEXT.{name}.*",
        f"{api}STREAM.CREATE.{name}",
        "$JS.ACK.>",
    ]
    user = {
        "user": "bob",
        "password": "b",
        "permissions": {"publish": allowed, "subscribe": "_INBOX_bob.>"},
    }
    config = {"authorization": {"users": [user, {"user": "admin", "password": "rabbit"}]}}
    options = {"user": "bob", "password": "b", "inbox_prefix": "_INBOX_bob"}
    profile = Profile("one_subject", config, options, {"user": "admin", "password": "rabbit"})
    with NatsServer(config=config) as server:
        async with open_ground(ground.front, profile, server) as own:
            await own.admin_js.create_stream(name=name, subjects=[f"{name}.>"])
            push = await own.js.subscribe(f"{name}.a")
            pull = await own.js.pull_subscribe(f"{name}.a")
            ordered = await own.js.subscribe(f"{name}.a", ordered_consumer=True)
            await own.fill(f"{name}.a", b"1")
            assert (await push.next_msg(5)).payload == b"1"
            assert (await ordered.next_msg(5)).payload == b"1"
            assert [message.payload for message in await pull.fetch(1)] == [b"1"]
            with pytest.raises(PermissionError):
                await own.js.pull_subscribe(f"{name}.b")
