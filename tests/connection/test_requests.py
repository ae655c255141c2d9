"""Requests, on both fronts."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.connection.support import Front, Proxy, Recorder

from jetspark.errors import BadSubjectError, NoRespondersError, RequestTimeoutError
from jetspark.server import NatsServer
from jetspark.wire.events import ErrorOccurred

pytestmark = pytest.mark.blocking


@pytest.mark.conformance("WIR-01")
async def test_connect_enables_headers_and_no_responders_and_a_request_to_nobody_fails_at_once(
    front: Front, shared_server: NatsServer
) -> None:
    async with Proxy(shared_server.port) as proxy:
        connection = await front.connect(proxy.url)
        begin = time.monotonic()
        with pytest.raises(NoRespondersError, match="nobody"):
            await connection.request("nobody.listens", timeout=5)
        with pytest.raises(NoRespondersError):
            await connection.request("nobody.listens", timeout=5, own_inbox=True)
        assert time.monotonic() - begin < 4  # of 5
        line = bytes(proxy.said).split(b"\r\n")[0]
        for field in (b'"headers":true', b'"no_responders":true', b'"protocol":1', b'"verbose":false'):
            assert field in line
        await front.close()


@pytest.mark.parametrize("own_inbox", [False, True], ids=["shared inbox", "own inbox"])
async def test_a_request_gets_its_reply(front: Front, url: str, own_inbox: bool) -> None:
    server = await front.connect(url)
    client = await front.connect(url)
    await front.answer(server, "double", lambda payload: payload * 2)
    answer = await client.request("double", b"ab", own_inbox=own_inbox, headers={"K": "v"})
    assert answer.payload == b"abab"


async def test_a_reply_can_itself_request_a_reply(front: Front, url: str) -> None:
    connection = await front.connect(url)
    asked, acknowledged = await connection.subscribe("ask"), await connection.subscribe("ack")
    for own_inbox in (False, True):
        asking = asyncio.create_task(connection.request("ask", own_inbox=own_inbox))
        await connection.publish((await asked.next_msg(5)).reply, b"answer", reply="ack")
        await (await asking).respond(b"thanks")
        assert (await acknowledged.next_msg(5)).payload == b"thanks"


async def test_an_empty_reply_is_a_reply(front: Front, url: str) -> None:
    connection = await front.connect(url)
    await front.answer(connection, "empty", lambda payload: b"")
    assert (await connection.request("empty")).payload == b""


async def test_r41_a_thousand_requests_at_once_are_all_answered(front: Front, url: str) -> None:
    connection = await front.connect(url, pending_msgs_limit=1)
    server = await front.connect(url)
    await front.answer(server, "echo", lambda payload: payload)
    answers = await asyncio.gather(*(connection.request("echo", b"%d" % number, timeout=20) for number in range(1000)))
    assert [answer.payload for answer in answers] == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("own_inbox", [False, True], ids=["shared inbox", "own inbox"])
async def test_a_request_without_a_reply_times_out(front: Front, url: str, own_inbox: bool) -> None:
    connection = await front.connect(url)
    _silent = await connection.subscribe("silent")
    begin = time.monotonic()
    with pytest.raises(RequestTimeoutError, match="silent"):
        await connection.request("silent", timeout=0.1, own_inbox=own_inbox)
    assert 0.05 < time.monotonic() - begin < 4  # the default timeout is 5


async def test_a_late_reply_reaches_no_other_request(front: Front, url: str) -> None:
    connection = await front.connect(url)
    late = await connection.subscribe("late")
    with pytest.raises(RequestTimeoutError):
        await connection.request("late", timeout=0.05)
    await connection.publish((await late.next_msg(5)).reply, b"too late")
    await front.answer(connection, "prompt", lambda payload: b"right")
    assert (await connection.request("prompt")).payload == b"right"


async def test_respond_without_a_reply_subject_raises(front: Front, url: str) -> None:
    recorder = Recorder()
    connection = await front.connect(url, on_event=recorder)
    await front.answer(connection, "plain", lambda payload: payload)
    await connection.publish("plain")
    assert isinstance((await recorder.wait(ErrorOccurred)).error, BadSubjectError)


async def test_r36_every_inbox_is_below_the_prefix(front: Front) -> None:
    users = [
        {
            "user": "private",
            "password": "secret",
            "permissions": {"subscribe": ["_MINE.>", "echo"], "publish": [">"]},
        }
    ]
    with NatsServer(jetstream=False, config={"authorization": {"users": users}}) as server:
        connection = await front.connect(
            server.url, user="private", password="secret", inbox_prefix="_MINE.inbox", reconnect=False
        )
        await front.answer(connection, "echo", lambda payload: payload)
        assert (await connection.request("echo", b"1")).payload == b"1"
        assert (await connection.request("echo", b"2", own_inbox=True)).payload == b"2"
        assert connection.new_inbox().startswith("_MINE.inbox.")
        await front.close()
