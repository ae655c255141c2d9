"""The context itself: the subjects of requests, and the results of errors and of missing answers."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.api.management.fake import fake_api
from tests.api.publishing.support import requests_in_flight
from tests.fronts import PROFILES, FrontName, Ground, eventually, open_ground

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    APIError,
    BadSubjectError,
    DisconnectedError,
    InvalidReplyError,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    JetStreamUnavailableError,
    NoDirectGetError,
    RequestTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream.api import AccountInfoRequest, StreamInfoRequest
from jetspark.jetstream.direct_get import DirectGetRequest
from jetspark.server import NatsServer

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.conformance("MGT-02")
@pytest.mark.profiles
async def test_account_info_reports_the_usage(ground: Ground, js: JetStream) -> None:
    before = await js.account_info()
    await ground.stream()
    info = await js.account_info()
    assert info.streams > 0
    assert info.domain == (ground.profile.domain or "")
    assert info.api.total >= before.api.total
    assert info.api.level > 0


@pytest.mark.conformance("MGT-01")
@_ONE_SERVER
@pytest.mark.profiles
@pytest.mark.blocking
async def test_requests_use_the_domain_or_prefix(ground: Ground) -> None:
    assert ground.nc.jetstream().prefix == "$JS.API."
    assert ground.nc.jetstream().timeout == 5.0
    assert ground.nc.jetstream(domain="hub").prefix == "$JS.hub.API."
    for prefix in ("FROM.ELSEWHERE", "FROM.ELSEWHERE."):
        context = ground.nc.jetstream(prefix=prefix, timeout=0.2)
        assert (context.prefix, context.timeout) == ("FROM.ELSEWHERE.", 0.2)
    spy = await ground.spy("FROM.ELSEWHERE.>")
    for request in (context.account_info(), context.direct_get(DirectGetRequest("S", 1))):
        with pytest.raises(RequestTimeoutError):  # a spy counts as a responder
            await request
    await spy.settled()
    assert set(spy.subjects) == {"FROM.ELSEWHERE.INFO", "FROM.ELSEWHERE.DIRECT.GET.S"}


@_ONE_SERVER
async def test_an_invalid_domain_is_refused(ground: Ground) -> None:
    for domain, prefix in (("a.b", None), ("", None), (None, "a b"), ("a", "b")):
        with pytest.raises(BadSubjectError):
            ground.nc.jetstream(domain=domain, prefix=prefix)


@pytest.mark.conformance("MGT-01", "WIR-11")
async def test_an_unknown_domain_is_reported_at_once(ground: Ground) -> None:
    context = ground.nc.jetstream(domain="elsewhere")
    before = time.monotonic()
    with pytest.raises(JetStreamNotEnabledError) as caught:
        await context.account_info()
    assert caught.value.code == 503
    with pytest.raises(NoDirectGetError):
        await context.direct_get(DirectGetRequest("S", 1))
    assert time.monotonic() - before < 4


@pytest.mark.conformance("MGT-02", "WIR-11")
async def test_a_server_without_jetstream_is_reported_at_once(front: FrontName) -> None:
    with NatsServer(jetstream=False) as server:
        async with open_ground(front, PROFILES["default"], server) as ground:
            with pytest.raises(JetStreamNotEnabledError):
                await ground.js.account_info()
            with pytest.raises(JetStreamNotEnabledError):
                await ground.js.create_stream(name="S")


@pytest.mark.conformance("MGT-02")
async def test_an_account_without_jetstream_is_reported(front: FrontName) -> None:
    users = [{"user": "poor", "password": "poor"}]
    config = {"accounts": {"POOR": {"users": users}, "RICH": {"jetstream": "enabled"}}}
    with NatsServer(config=config) as server:
        connection = {"user": "poor", "password": "poor"}
        async with open_ground(front, PROFILES["default"], server, admin_options=connection, **connection) as ground:
            with pytest.raises(JetStreamNotEnabledForAccountError) as caught:
                await ground.js.account_info()
            assert caught.value.err_code == 10039


@pytest.mark.conformance("WIR-10")
async def test_an_error_has_its_codes_and_its_text(ground: Ground, js: JetStream) -> None:
    with pytest.raises(StreamNotFoundError) as caught:
        await js.stream(ground.name())
    error = caught.value
    assert isinstance(error, APIError)
    assert isinstance(error, LookupError)
    assert (error.code, error.err_code, error.description) == (404, 10059, "stream not found")
    assert "STREAM.INFO" in str(error)


@pytest.mark.conformance("WIR-10")
@_ONE_SERVER
@pytest.mark.parametrize(
    ("answer", "code", "err_code"),
    [
        (b'{"error":{"code":400,"err_code":99999,"description":"stream not found"}}', 400, 99999),
        (b'{"error":{"code":503,"description":"x"},"config":{"name":"S"}}', 503, 0),
        (b"-ERR 'Something'", 500, 0),
    ],
)
async def test_an_error_in_a_reply_takes_precedence_over_its_other_fields(
    ground: Ground, answer: bytes, code: int, err_code: int
) -> None:
    js = await fake_api(ground, lambda endpoint, payload: [answer])
    with pytest.raises(APIError) as caught:
        await js.stream("S")
    assert (caught.value.code, caught.value.err_code) == (code, err_code)


@_ONE_SERVER
async def test_an_invalid_reply_is_reported(ground: Ground) -> None:
    js = await fake_api(ground, lambda endpoint, payload: [b"{nonsense"])
    with pytest.raises(InvalidReplyError, match=r"STREAM\.INFO\.S"):
        await js.stream("S")


@pytest.mark.conformance("WIR-11")
@_ONE_SERVER
async def test_a_missing_answer_is_a_timeout_that_names_the_request(ground: Ground) -> None:
    js = await fake_api(ground, lambda endpoint, payload: [], timeout=0.2)
    for call in (js.delete_stream("S"), js.stream("S"), js.stream("S", timeout=0.1)):
        before = time.monotonic()
        with pytest.raises(RequestTimeoutError, match=r"STREAM\.(DELETE|INFO)\.S") as caught:
            await call
        assert isinstance(caught.value, TimeoutError)
        assert time.monotonic() - before < 4


@_ONE_SERVER
@pytest.mark.blocking
async def test_read_requests_are_repeated_while_nobody_answers(ground: Ground) -> None:
    asked: list[str] = []

    def answers(endpoint: str, payload: bytes) -> list[bytes]:
        asked.append(endpoint)
        return [b"{}"] if len(asked) > 2 and endpoint == "INFO" else []

    js = await fake_api(ground, answers, timeout=2)
    await js.request(AccountInfoRequest())
    assert asked == ["INFO"] * 3
    asked.clear()
    with pytest.raises(RequestTimeoutError):
        await js.delete_stream("S", timeout=0.2)
    await eventually(lambda: asked)
    assert asked == ["STREAM.DELETE.S"]


@_ONE_SERVER
async def test_read_requests_are_repeated_while_there_is_no_leader(ground: Ground) -> None:
    asked: list[str] = []
    unavailable = b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'

    def answers(endpoint: str, payload: bytes) -> list[bytes]:
        asked.append(endpoint)
        return [b"{}" if len(asked) == 3 else unavailable]

    js = await fake_api(ground, answers, timeout=1)
    await js.account_info()
    assert asked == ["INFO"] * 3
    with pytest.raises(JetStreamUnavailableError):
        await js.account_info()
    assert len(asked) > 5
    asked.clear()
    with pytest.raises(JetStreamUnavailableError):
        await js.delete_stream("S")
    assert asked == ["STREAM.DELETE.S"]


@_ONE_SERVER
async def test_a_refusal_is_raised_although_the_retry_gets_no_answer(ground: Ground) -> None:
    left = iter([b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'])
    js = await fake_api(ground, lambda endpoint, payload: list(left), timeout=0.5)
    with pytest.raises(JetStreamUnavailableError):
        await js.account_info()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@_ONE_SERVER
async def test_a_cancelled_request_leaves_nothing_in_flight(ground: Ground) -> None:
    js = await fake_api(ground, lambda endpoint, payload: [], timeout=30)
    asking = asyncio.create_task(js.request(StreamInfoRequest("S")))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(ground.nc._core.client.reply_mux) == 0


async def test_read_requests_survive_a_restart_of_the_server(front: FrontName) -> None:
    with NatsServer() as server:
        async with open_ground(front, PROFILES["default"], server) as ground:
            stream = await ground.js.create_stream(name="KEPT", storage="file")
            server.pause()  # requests from now on get no answer
            reading = asyncio.create_task(stream.info(timeout=60))
            changing = asyncio.create_task(ground.js.delete_stream("OTHER", timeout=60))
            await eventually(lambda: requests_in_flight(ground.nc) == 2)
            await asyncio.to_thread(server.kill)
            with pytest.raises(DisconnectedError):
                await changing
            await asyncio.to_thread(server.start)
            assert (await reading).config.name == "KEPT"
