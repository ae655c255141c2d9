"""Operations of a stream on its messages: info, get, delete, purge."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.fronts import Ground

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    APIError,
    ConfigError,
    MessageNotFoundError,
    NoDirectGetError,
    StreamConfigError,
)
from jetspark.jetstream import Timestamp

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)
_BOTH_WAYS = pytest.mark.parametrize("allow_direct", [False, True], ids=["leader", "direct"])


@pytest.mark.conformance("STM-02")
async def test_a_stream_reports_its_gaps_and_subjects(ground: Ground) -> None:
    stream = await ground.stream()
    for subject in ("a", "b", "a", "c", "a"):
        await ground.fill(f"{stream.name}.{subject}", b"x")
    await stream.delete_msg(2)
    await stream.delete_msg(4)
    plain = await stream.info()
    assert (plain.state.num_deleted, plain.state.deleted, plain.state.subjects) == (2, None, None)
    assert (await stream.info(deleted_details=True)).state.deleted == [2, 4]
    counted = await stream.info(subjects_filter=">")
    assert counted.state.subjects == {f"{stream.name}.a": 3}
    assert stream.cached_info.state.subjects == counted.state.subjects
    both = await stream.info(subjects_filter=f"{stream.name}.b", deleted_details=True)
    assert (both.state.deleted, both.state.subjects) == ([2, 4], {})


@pytest.mark.slow
@pytest.mark.conformance("STM-02")
@_ONE_SERVER
async def test_more_subjects_than_fit_a_page_are_returned_together(ground: Ground) -> None:
    stream = await ground.stream()
    count = 100_003
    for number in range(count - 1):
        await ground.admin.publish(f"{stream.name}.{number}")
    await ground.admin.request(f"{stream.name}.last", timeout=60)  # answered after all of them
    spy = await ground.spy(f"$JS.API.STREAM.INFO.{stream.name}")
    info = await stream.info(subjects_filter=">", timeout=60)
    assert info.state.subjects is not None
    assert len(info.state.subjects) == count
    assert len(await spy.settled()) == 2


@pytest.mark.conformance("STM-03")
async def test_a_purge_removes_the_selected_messages(ground: Ground) -> None:
    stream = await ground.stream()

    async def refill() -> None:
        await stream.purge()
        for number in range(9):
            await ground.fill(f"{stream.name}.{number % 3}", b"x")

    await refill()
    first = (await stream.info()).state.first_sequence
    assert await stream.purge(sequence=first + 4) == 4
    assert (await stream.info()).state.first_sequence == first + 4
    await refill()
    assert await stream.purge(keep=2) == 7
    await refill()
    assert await stream.purge(subject=f"{stream.name}.0") == 3
    assert await stream.purge(subject=f"{stream.name}.1", keep=1) == 2
    last = (await stream.info()).state.last_sequence
    assert await stream.purge(subject=f"{stream.name}.2", sequence=last) == 2
    assert await stream.purge(subject=f"{stream.name}.nothing") == 0
    assert await stream.purge() == 2
    spy = await ground.spy()
    with pytest.raises(ConfigError, match="not both"):
        await stream.purge(sequence=1, keep=1)
    assert await spy.settled() == []


@pytest.mark.conformance("STM-03")
@pytest.mark.blocking
async def test_a_stream_that_denies_purge_is_not_purged(ground: Ground) -> None:
    stream = await ground.stream(deny_purge=True, deny_delete=True)
    await ground.fill(f"{stream.name}.a", b"1")
    for call in (stream.purge(), stream.delete_msg(1), stream.secure_delete_msg(1)):
        with pytest.raises(APIError):
            await call
    with pytest.raises(StreamConfigError):
        await stream.update(deny_purge=False)


@pytest.mark.conformance("STM-04")
@_BOTH_WAYS
@pytest.mark.profiles
async def test_a_message_can_be_read_in_every_way(ground: Ground, allow_direct: bool) -> None:
    stream = await ground.stream(allow_direct=allow_direct)
    name = stream.name
    for number in range(6):
        headers = {"Number": str(number), "Nats-Sequence": "mine"} if number % 2 else None
        await ground.admin.request(f"{name}.{number % 3}", b"\x00%d\xff" % number, headers=headers)
    spy = await ground.spy(
        f"$JS.API.STREAM.MSG.GET.{name}", f"$JS.API.DIRECT.GET.{name}", f"$JS.API.DIRECT.GET.{name}.>"
    )
    third = await stream.get_msg(3)
    assert (third.stream, third.subject, third.sequence, third.payload) == (name, f"{name}.2", 3, b"\x002\xff")
    assert len(third.headers) == 0
    second = await stream.get_msg(2)
    assert second.headers.to_dict() == {"Number": ["1"], "Nats-Sequence": ["mine"]}
    assert abs((third.timestamp - datetime.now(UTC)).total_seconds()) < 60
    assert (await stream.get_msg(last_by_subject=f"{name}.*")).sequence == 6
    assert (await stream.get_msg(last_by_subject=f"{name}.1")).sequence == 5
    assert (await stream.get_last_msg(f"{name}.0")).sequence == 4
    assert (await stream.get_last_msg(f"{name}.>")).sequence == 6
    assert (await stream.get_msg(next_by_subject=f"{name}.1")).sequence == 2
    assert (await stream.get_msg(3, next_by_subject=f"{name}.1")).sequence == 5
    assert (await stream.get_msg(start_time=third.timestamp)).sequence == 3
    moment = Timestamp.from_ns(third.timestamp_ns + 1)
    assert (await stream.get_msg(start_time=moment, next_by_subject=f"{name}.2")).sequence == 6
    await spy.settled()
    assert {("DIRECT" in subject) for subject in spy.subjects} == {allow_direct}


@pytest.mark.conformance("STM-04")
@_BOTH_WAYS
async def test_a_missing_message_is_not_found(ground: Ground, allow_direct: bool) -> None:
    stream = await ground.stream(allow_direct=allow_direct)
    await ground.fill(f"{stream.name}.a", b"1")
    for call in (
        stream.get_msg(2),
        stream.get_last_msg(f"{stream.name}.b"),
        stream.get_msg(next_by_subject="other"),
        stream.get_msg(start_time=datetime(2100, 1, 1, tzinfo=UTC)),
    ):
        with pytest.raises(MessageNotFoundError) as caught:
            await call
        assert (caught.value.code, caught.value.err_code) == (404, 10037)
    for choice in (stream.get_msg(), stream.get_msg(1, last_by_subject="a"), stream.get_msg(0)):
        with pytest.raises(ConfigError):
            await choice


@pytest.mark.conformance("STM-04", "DIR-04")
async def test_the_method_of_a_get_can_be_chosen(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream(allow_direct=True)
    await ground.fill(f"{stream.name}.a", b"1")
    spy = await ground.spy(f"$JS.API.STREAM.MSG.GET.{stream.name}")
    assert (await stream.get_msg(1, direct=False)).payload == b"1"
    assert len(await spy.wait(1)) == 1
    await stream.update(allow_direct=False)
    with pytest.raises(NoDirectGetError):
        await stream.get_msg(1, direct=True)
    outdated = await js.stream(stream.name)
    outdated.cached_info.config.allow_direct = True  # like a handle that was read before the change
    assert (await outdated.get_msg(1)).payload == b"1"


@pytest.mark.conformance("STM-05")
async def test_a_deleted_message_is_gone(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    spy = await ground.spy(f"$JS.API.STREAM.MSG.DELETE.{stream.name}")
    await stream.delete_msg(1)
    await stream.secure_delete_msg(2)
    assert [message.payload for message in await spy.wait(2)] == [b'{"seq":1,"no_erase":true}', b'{"seq":2}']
    for seq in (1, 2):
        for call in (stream.delete_msg(seq), stream.secure_delete_msg(seq)):
            with pytest.raises(MessageNotFoundError) as caught:
                await call
            assert caught.value.err_code == 10043
        with pytest.raises(MessageNotFoundError) as gone:
            await stream.get_msg(seq)
        assert gone.value.err_code == 10037
    with pytest.raises(ConfigError):
        await stream.delete_msg(0)
