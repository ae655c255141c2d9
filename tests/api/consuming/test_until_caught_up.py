"""`until_caught_up` ends where the leader of the stream has no more messages, not where a consumer says so."""

from __future__ import annotations

import json

import pytest
from tests.api.consuming.support import Warnings, numbered
from tests.fronts import PROFILES, FrontName, Ground, open_ground

from jetspark.errors import PermissionsViolationError
from jetspark.server import NatsServer


async def test_the_leader_is_asked_once_for_the_last_message_of_each_subject(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 20))
    await ground.fill(f"{stream.name}.b", b"other")
    questions = await ground.spy(f"$JS.API.STREAM.MSG.GET.{stream.name}")
    filters = [f"{stream.name}.a", f"{stream.name}.none"]
    async with stream.ordered_consumer(filter_subjects=filters).consume(until_caught_up=True) as messages:
        assert [message.payload async for message in messages] == numbered(0, 20)
    asked = [json.loads(message.payload)["last_by_subj"] for message in await questions.settled()]
    assert asked == filters


async def test_messages_written_meanwhile_do_not_delay_the_end(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"0")
    seen = 0
    async with stream.ordered_consumer().consume(until_caught_up=True) as messages:
        async for _ in messages:
            seen += 1
            await ground.fill(f"{stream.name}.a", b"more")
    assert seen < 200


@pytest.mark.parametrize("start", [{"deliver_policy": "new"}, {"deliver_policy": "by_start_sequence"}])
async def test_a_start_after_the_last_message_ends_at_once(ground: Ground, start: dict[str, str]) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 3))
    place = {"opt_start_seq": 9} if start["deliver_policy"] != "new" else {}
    async with stream.ordered_consumer(**start, **place).consume(until_caught_up=True) as messages:  # type: ignore[arg-type]
        assert [message async for message in messages] == []


async def test_the_consumer_decides_if_the_leader_may_not_be_asked(front: FrontName) -> None:
    bob = {"user": "bob", "password": "b", "permissions": {"publish": {"deny": "$JS.API.STREAM.MSG.GET.>"}}}
    admin = {"user": "admin", "password": "rabbit"}
    with NatsServer(config={"authorization": {"users": [bob, admin]}}) as server:
        async with open_ground(front, PROFILES["default"], server, admin, user="bob", password="b") as ground:
            stream = await ground.stream()
            await ground.fill(f"{stream.name}.a", *numbered(0, 3))
            reported = Warnings()
            async with stream.ordered_consumer().consume(until_caught_up=True, on_error=reported.add) as messages:
                assert [message.payload async for message in messages] == numbered(0, 3)
            await reported.wait(PermissionsViolationError)
            assert len(reported.errors) == 1
