"""Streams are created, changed, found, listed and deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta

import pytest
from tests.api.management.fake import fake_api
from tests.fronts import Ground
from tests.stores import before, unmakeable_store

from jetspark import aio
from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    BadNameError,
    ConfigError,
    NoMatchingStreamError,
    StreamConfigError,
    StreamNameInUseError,
    StreamNotFoundError,
    SubjectOverlapError,
)
from jetspark.jetstream import Duration, RetentionPolicy, StorageType, StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamNamesRequest

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.conformance("MGT-03")
@pytest.mark.profiles
async def test_a_stream_is_created_from_a_configuration_or_its_fields(ground: Ground, js: JetStream) -> None:
    one, other = ground.name(), ground.name()
    config = StreamConfig(name=one, subjects=[f"{one}.>"], storage=StorageType.MEMORY, max_age=timedelta(seconds=90))
    made = await js.create_stream(config)
    assert isinstance(made, aio.jetstream.Stream)
    assert made.name == one
    assert made.cached_info.config.max_age == timedelta(seconds=90)
    changed = await js.create_stream(config, name=other, subjects=[other], retention="workqueue")
    assert changed.cached_info.config.retention is RetentionPolicy.WORK_QUEUE
    assert changed.cached_info.config.max_age == timedelta(seconds=90)
    assert config.name == one
    assert (await js.stream(other)).cached_info.created == changed.cached_info.created


@pytest.mark.conformance("MGT-03")
async def test_creating_the_same_stream_again_succeeds_and_a_different_one_fails(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream()
    again = await js.create_stream(stream.cached_info.config)
    assert again.cached_info.created == stream.cached_info.created
    with pytest.raises(StreamNameInUseError) as caught:
        await js.create_stream(name=stream.name, subjects=["other"], storage="memory")
    assert (caught.value.code, caught.value.err_code) == (400, 10058)
    with pytest.raises(SubjectOverlapError) as overlap:
        await ground.stream(subjects=[f"{stream.name}.a"])
    assert overlap.value.err_code == 10065


@pytest.mark.conformance("MGT-04")
async def test_an_update_changes_the_stream_or_names_the_error(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream()
    config = stream.cached_info.config
    updated = await js.update_stream(config, max_msgs=7)
    assert updated.cached_info.config.max_msgs == 7
    with pytest.raises(StreamNotFoundError) as missing:
        await js.update_stream(name=ground.name(), subjects=["x"])
    assert missing.value.err_code == 10059
    with pytest.raises(StreamConfigError) as forbidden:
        await js.update_stream(config, storage="file")
    assert (forbidden.value.code, forbidden.value.err_code) == (500, 10052)


@_ONE_SERVER
async def test_a_store_that_could_not_be_created_is_created_on_retry(ground: Ground, js: JetStream) -> None:
    name, _ = ground.name(), await ground.stream(storage="file")
    spy = await ground.spy()
    unmakeable_store(ground.server, name)
    stream = await js.create_stream(name=name, subjects=[name])
    await spy.settled()
    assert spy.subjects == [f"$JS.API.STREAM.CREATE.{name}"] * 2
    assert (await stream.info()).state.messages == 0


@_ONE_SERVER
async def test_a_store_that_can_never_be_created_is_an_error_after_a_few_tries(
    ground: Ground, js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = ground.name(), await ground.stream(storage="file")
    spy = await ground.spy()
    obstacle = unmakeable_store(ground.server, name)
    monkeypatch.setattr(StreamCreateRequest, "retry_delay", before(StreamCreateRequest.retry_delay, obstacle.touch))
    with pytest.raises(StreamConfigError, match="error creating store for stream") as caught:
        await js.create_stream(name=name, subjects=[name], timeout=30)
    await spy.settled()
    assert (caught.value.code, caught.value.err_code) == (500, 10049)
    assert spy.subjects == [f"$JS.API.STREAM.CREATE.{name}"] * 6
    spy.messages.clear()
    pauses = iter((0.02, 10.0))

    def pause(*_: object) -> float:
        obstacle.touch()
        return next(pauses)

    monkeypatch.setattr(StreamCreateRequest, "retry_delay", pause)
    with pytest.raises(StreamConfigError):  # before the second pause: its time would be over after that
        await js.create_stream(name=name, subjects=[name], timeout=8)
    await spy.settled()
    assert len(spy.messages) == 2
    obstacle.unlink()


@pytest.mark.conformance("MGT-04")
async def test_create_or_update_creates_or_updates(ground: Ground, js: JetStream) -> None:
    name = ground.name()
    spy = await ground.spy()
    made = await js.create_or_update_stream(name=name, subjects=[name], storage="memory")
    changed = await js.create_or_update_stream(name=name, subjects=[name], storage="memory", max_msgs=3)
    assert changed.cached_info.created == made.cached_info.created
    assert changed.cached_info.config.max_msgs == 3
    await spy.settled()
    assert spy.subjects == [f"$JS.API.STREAM.{word}.{name}" for word in ("UPDATE", "CREATE", "UPDATE")]


@pytest.mark.conformance("MGT-05")
async def test_a_missing_stream_is_not_found(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream()
    handle = await js.stream(stream.name)
    await ground.fill(f"{stream.name}.a", b"1")
    assert handle.cached_info.state.messages == 0
    assert (await handle.info()).state.messages == 1
    assert handle.cached_info.state.messages == 1
    await js.delete_stream(stream.name)
    calls: list[Callable[[], Coroutine[object, object, object]]] = [
        lambda: js.stream(stream.name),
        lambda: js.delete_stream(stream.name),
        handle.info,
        handle.delete,
        lambda: handle.update(max_msgs=1),
        handle.purge,
        lambda: handle.get_msg(1),
    ]
    for call in calls:
        with pytest.raises(StreamNotFoundError) as caught:
            await call()
        assert (caught.value.code, caught.value.err_code) == (404, 10059)


@pytest.mark.conformance("CFG-05")
@pytest.mark.parametrize("name", ["", "a.b", "a b", "a\tb", "a\r", "a\n", "*", ">", "a/b", "a\\b"])
@_ONE_SERVER
async def test_a_name_that_no_server_would_answer_is_refused_at_once(ground: Ground, js: JetStream, name: str) -> None:
    spy = await ground.spy()
    calls: list[Callable[[], Coroutine[object, object, object]]] = [
        lambda: js.create_stream(name=name),
        lambda: js.update_stream(name=name),
        lambda: js.stream(name),
        lambda: js.delete_stream(name),
        lambda: js.create_consumer(name),
        lambda: js.create_consumer("S", name=name),
        lambda: js.update_consumer("S", durable_name=name),
        lambda: js.consumer(name, "C"),
        lambda: js.consumer("S", name),
        lambda: js.delete_consumer("S", name),
        lambda: js.pause_consumer("S", name, datetime.now(UTC)),
    ]
    for call in calls:
        with pytest.raises(BadNameError):
            await call()
    with pytest.raises(BadNameError):
        js.consumer_names(name)
    assert await spy.settled() == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"subjects": "orders.>"}, "subjects takes a list"),
        ({"max_age": 60}, "max_age takes a timedelta"),
        ({"max_mgs": 5}, "'max_msgs'"),
        ({"placement": {"cluster": "c"}}, "takes a Placement"),
        ({"max_msgs": "5"}, "whole number"),
    ],
)
@_ONE_SERVER
async def test_a_field_of_the_wrong_type_is_named(js: JetStream, fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        await js.create_stream(None, name="S", **fields)  # type: ignore[arg-type]  # `timeout` is not among them


async def test_an_update_of_some_fields_keeps_the_others(ground: Ground) -> None:
    stream = await ground.stream(max_age=Duration.from_ns(90_000_000_001), metadata={"owner": "tests"})
    info = await stream.update(max_msgs=5, description="five")
    assert info is not None
    config = (await stream.info()).config
    assert (config.max_msgs, config.description) == (5, "five")
    assert config.max_age == Duration.from_ns(90_000_000_001)
    assert config.metadata is not None
    assert config.metadata["owner"] == "tests"
    with pytest.raises(StreamConfigError):
        await stream.update(storage="file")


@pytest.mark.conformance("WIR-09")
@_ONE_SERVER
async def test_r57_fields_of_a_newer_server_survive_an_update(ground: Ground) -> None:
    """R57: a reply with unknown fields and values is read, and a configuration that is written back keeps them."""
    sent: list[dict[str, object]] = []

    def answers(endpoint: str, payload: bytes) -> list[bytes]:
        config: dict[str, object] = {
            "name": "S",
            "retention": "until_friday",
            "max_msgs": 3,
            "warp_factor": 9,
            "placement": {"cluster": "c", "moon": "full"},
            "sources": None,
        }
        if endpoint.startswith("STREAM.UPDATE"):
            config = json.loads(payload)
            sent.append(config)
        state = {"messages": 1, "mood": "calm"}
        return [json.dumps({"config": config, "created": "2031-01-01T00:00:00Z", "state": state, "new": 1}).encode()]

    js = await fake_api(ground, answers)
    stream = await js.stream("S")
    assert stream.cached_info.config.retention == "until_friday"
    assert stream.cached_info.extra == {"new": 1}
    await stream.update(max_msgs=4)
    (config,) = sent
    assert (config["max_msgs"], config["warp_factor"], config["retention"]) == (4, 9, "until_friday")
    assert config["placement"] == {"cluster": "c", "moon": "full"}


@pytest.mark.conformance("MGT-06")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_lists_are_returned_by_an_iterator_or_in_one_call(ground: Ground, js: JetStream) -> None:
    streams = [await ground.stream() for _ in range(3)]
    names = {stream.name for stream in streams}
    assert names <= {name async for name in js.stream_names()}
    assert names <= set(await js.stream_names().all())
    assert names <= {info.config.name async for info in js.streams()}
    assert names <= {info.config.name for info in await js.streams().all()}
    subject = f"{streams[0].name}.a"
    assert await js.stream_names(subject).all() == [streams[0].name]
    assert [info.config.name for info in await js.streams(subject).all()] == [streams[0].name]
    assert await js.paginate(StreamNamesRequest(subject)).all() == [streams[0].name]
    listing = js.streams()
    await listing.all()
    assert (listing.missing, listing.offline) == ([], {})


@pytest.mark.conformance("MGT-06")
@_ONE_SERVER
async def test_r56_lists_continue_after_the_first_page(ground: Ground, js: JetStream) -> None:
    """R56: a list of streams ended with its first page."""
    first = ground.name("PAGED")
    wanted = {first} | {ground.name("PAGED") for _ in range(299)}
    for some in _groups(sorted(wanted), 50):
        await asyncio.gather(*(ground.admin_js.create_stream(name=name, storage="memory") for name in some))
    spy = await ground.spy(f"{js.prefix}STREAM.LIST", f"{js.prefix}STREAM.NAMES")
    # With a longer timeout than usual: a request without an answer is repeated after a quarter of it.
    assert wanted <= {info.config.name for info in await js.streams(timeout=40).all()}
    assert len(await spy.settled()) == 2
    assert wanted <= set(await js.stream_names(timeout=40).all())
    assert len(await spy.settled()) == 3
    async for _ in js.streams(timeout=40):
        break  # the second page was not requested
    assert len(await spy.settled()) == 4


@pytest.mark.conformance("WIR-09")
async def test_a_list_without_entries_is_empty(ground: Ground, js: JetStream) -> None:
    nothing = ground.name()
    assert await js.stream_names(nothing).all() == []
    assert await js.streams(nothing).all() == []
    stream = await ground.stream()
    assert await js.consumer_names(stream.name).all() == []
    assert await stream.consumers().all() == []


@pytest.mark.blocking
async def test_a_stream_is_found_by_a_subject(ground: Ground, js: JetStream) -> None:
    one, other = await ground.stream(), await ground.stream()
    assert await js.stream_name_by_subject(f"{one.name}.a") == one.name
    with pytest.raises(NoMatchingStreamError) as none:
        await js.stream_name_by_subject(ground.name())
    assert none.value.streams == ()
    wide = f"*.{ground.name()}"
    with pytest.raises(NoMatchingStreamError) as several:
        await js.stream_name_by_subject(wide)
    assert {one.name, other.name} <= set(several.value.streams)


@_ONE_SERVER
async def test_streams_of_servers_that_do_not_answer_are_reported_with_the_list(ground: Ground) -> None:
    page = {"total": 3, "limit": 256, "streams": [], "missing": ["A"], "offline": {"B": "unsupported"}}
    js = await fake_api(ground, lambda endpoint, payload: [json.dumps(page).encode()])
    listing = js.streams()
    assert await listing.all() == []
    assert (listing.missing, listing.offline) == (["A"], {"B": "unsupported"})


def _groups(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
