"""Schedules of a stream on a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.publishing.support import until
from tests.fronts import Ground

from jetspark.aio.jetstream import Schedules
from jetspark.errors import (
    APIError,
    BadSubjectError,
    ConfigError,
    MessageNotFoundError,
    MessageTTLDisabledError,
    ScheduleError,
    ScheduleNotFoundError,
    StreamConfigError,
    WrongLastSequenceError,
)
from jetspark.jetstream import StoredMessage

HOUR = timedelta(hours=1)


async def scheduling(ground: Ground, **fields: Any) -> tuple[Schedules, str]:
    """Return the schedules of a new stream, and the first token of its subjects."""
    stream = await ground.stream(allow_msg_schedules=True, **fields)
    return await ground.js.schedules(stream.name), stream.name


async def published(ground: Ground, name: str, subject: str) -> StoredMessage:
    """Wait for a message of a subject."""
    stream = await ground.admin_js.stream(name)
    found: list[StoredMessage] = []

    async def there() -> bool:
        try:
            found.append(await stream.get_last_msg(subject))
        except MessageNotFoundError:
            return False
        return True

    await until(there)
    return found[-1]


@pytest.mark.conformance("SCH-02", "SCH-05")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_a_message_is_published_at_its_time(ground: Ground) -> None:
    jobs, name = await scheduling(ground)
    assert jobs.stream_name == name
    soon = datetime.now(UTC) + timedelta(milliseconds=300)
    await jobs.schedule(f"{name}.plan", b"work", target=f"{name}.do", at=soon, headers={"Color": "red"})
    assert [each.subject for each in await jobs.list()] == [f"{name}.plan"]
    message = await published(ground, name, f"{name}.do")
    assert message.payload == b"work"
    assert (message.headers.get("Color"), message.headers.get("Nats-Scheduler")) == ("red", f"{name}.plan")
    assert message.headers.get("Nats-Schedule-Next") == "purge"
    assert message.timestamp >= soon - timedelta(milliseconds=50)
    assert await jobs.list() == []  # a schedule for one time is gone


@pytest.mark.conformance("SCH-02", "SCH-05")
async def test_a_past_time_publishes_at_once_and_an_interval_again_and_again(ground: Ground) -> None:
    jobs, name = await scheduling(ground)
    await jobs.schedule(f"{name}.past", b"1", target=f"{name}.now", at=datetime(2020, 1, 1, tzinfo=UTC))
    assert (await published(ground, name, f"{name}.now")).payload == b"1"
    await jobs.schedule(f"{name}.plan", b"2", target=f"{name}.tick", every=timedelta(seconds=1))
    message = await published(ground, name, f"{name}.tick")
    following = message.headers.get("Nats-Schedule-Next")
    assert following is not None
    assert following != "purge"
    assert [each.schedule for each in await jobs.list(f"{name}.*")] == ["@every 1s"]


@pytest.mark.conformance("SCH-01")
async def test_a_stream_without_schedules_is_refused(ground: Ground) -> None:
    plain = await ground.stream()
    with pytest.raises(ConfigError, match="allow_msg_schedules"):
        await ground.js.schedules(plain.name)
    with pytest.raises(StreamConfigError):
        await scheduling(ground, discard="new", max_msgs_per_subject=1)
    with pytest.raises(ScheduleError) as caught:
        await ground.js.publish(f"{plain.name}.a", schedule="@hourly", schedule_target=f"{plain.name}.b")
    assert caught.value.err_code == 10188


@pytest.mark.conformance("SCH-03", "SCH-04")
async def test_wrong_schedules_are_refused_and_not_stored(ground: Ground) -> None:
    jobs, name = await scheduling(ground)
    plan, target = f"{name}.plan", f"{name}.do"

    async def code(**fields: Any) -> int:
        with pytest.raises(APIError) as caught:
            await jobs.schedule(plan, b"", **{"target": target, "cron": "@hourly", **fields})
        return caught.value.err_code

    assert await code(target="elsewhere.x") == 10190
    assert await code(target=plan) == 10190
    assert await code(source=f"{name}.*") == 10203
    assert await code(source=target) == 10203
    assert await code(time_zone="+02:00") == 10223
    assert await code(time_zone="Nowhere/Never") == 10223
    with pytest.raises(MessageTTLDisabledError):
        await jobs.schedule(plan, b"", target=target, cron="@hourly", ttl=HOUR)
    with pytest.raises(TypeError):
        await jobs.schedule(plan, b"", cron="@hourly")  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        await jobs.schedule(plan, b"", target=target)
    with pytest.raises(BadSubjectError):
        await jobs.schedule(f"{name}.*", b"", target=target, cron="@hourly")
    assert await jobs.list() == []
    assert await jobs.schedule(plan, b"", target=target, cron="0 0 9 * * *", time_zone="Europe/Berlin")


@pytest.mark.conformance("SCH-06", "SCH-07")
@pytest.mark.blocking
async def test_a_subject_has_one_schedule_which_can_be_replaced_and_cancelled(ground: Ground) -> None:
    jobs, name = await scheduling(ground)
    plan, target = f"{name}.plan", f"{name}.do"
    first = await jobs.schedule(plan, b"1", target=target, every=HOUR)
    second = await jobs.schedule(plan, b"2", target=target, every=2 * HOUR, revision=first)
    with pytest.raises(WrongLastSequenceError):
        await jobs.schedule(plan, b"3", target=target, every=HOUR, revision=first)
    [found] = await jobs.list()
    assert found == await jobs.get(plan)
    assert (found.payload, found.schedule, found.target, found.revision) == (b"2", "@every 2h0m0s", target, second)
    await ground.fill(target, b"a message")
    assert not await jobs.cancel(target)  # no schedule: it stays
    assert await jobs.cancel(plan)
    assert not await jobs.cancel(plan)
    with pytest.raises(ScheduleNotFoundError):
        await jobs.get(plan)
    assert (await (await ground.js.stream(name)).get_last_msg(target)).payload == b"a message"


@pytest.mark.conformance("SCH-08")
@pytest.mark.blocking
async def test_a_schedule_is_replaced_by_a_message_in_one_step(ground: Ground) -> None:
    jobs, name = await scheduling(ground)
    plan, target = f"{name}.plan", f"{name}.do"
    await jobs.schedule(plan, b"later", target=target, every=HOUR)
    sequence = await jobs.replace_by(plan, target, b"now", headers={"Color": "red"})
    message = await (await ground.js.stream(name)).get_last_msg(target)
    assert (message.sequence, message.payload, message.headers.get("Color")) == (sequence, b"now", "red")
    assert await jobs.list() == []
    with pytest.raises(ScheduleNotFoundError):
        await jobs.replace_by(plan, target, b"again")
    await jobs.schedule(plan, b"later", target=target, every=HOUR)
    with pytest.raises(ScheduleError):
        await jobs.replace_by(plan, plan, b"itself")
    assert len(await jobs.list()) == 1
