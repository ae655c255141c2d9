"""Retries: how often, how long, and what is released in between."""

from __future__ import annotations

import pytest

from jetspark.bulk import retry
from jetspark.bulk.retry import RetryTimer, call_with_retry
from jetspark.engine.retry import can_resume
from jetspark.errors import ConnectError, RequestTimeoutError


class Clock:
    """A replacement of the module `time` whose time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    return clock


def test_without_a_retry_timeout_there_is_one_try_and_no_release() -> None:
    released: list[str] = []
    timer = RetryTimer(0)
    assert not timer.wait(lambda: released.append("now"))
    assert not released
    assert timer.retries == 0


def test_resources_are_released_before_the_wait(clock: Clock) -> None:
    released: list[float] = []
    assert RetryTimer(5).wait(lambda: released.append(clock.now), min_delay=0.1)
    assert (released, clock.now) == ([0.0], 0.1)


def test_temporary_failures_are_retried_until_success() -> None:
    answers = iter([ConnectError("away"), RequestTimeoutError("still away")])

    def ask() -> str:
        if (error := next(answers, None)) is not None:
            raise error
        return "here"

    assert call_with_retry(ask, can_resume, 5) == "here"


def test_permanent_failures_are_not_retried() -> None:
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise PermissionError

    with pytest.raises(PermissionError):
        call_with_retry(ask, can_resume, 5)
    assert asked == [1]


def test_repeated_failures_are_retried_until_the_timeout(clock: Clock) -> None:
    asked: list[float] = []

    def ask() -> None:
        asked.append(clock.now)
        raise ConnectError("away")

    with pytest.raises(ConnectError):
        call_with_retry(ask, can_resume, 0.3)
    assert len(asked) > 2
    assert asked[-1] - asked[0] < 0.3
