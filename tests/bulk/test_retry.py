"""Trying again: how often, how long, and what is let go of in between."""

from __future__ import annotations

import pytest

from jetspark.bulk import retry
from jetspark.bulk.retry import RetryTimer, call_with_retry
from jetspark.engine.retry import can_resume
from jetspark.errors import ConnectError, RequestTimeoutError


class Clock:
    """A time that passes only in sleep, in place of the module `time`."""

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


def test_without_a_retry_timeout_there_is_one_try_and_nothing_is_let_go_of() -> None:
    let_go: list[str] = []
    timer = RetryTimer(0)
    assert not timer.wait(lambda: let_go.append("now"))
    assert not let_go
    assert timer.retries == 0


def test_what_is_let_go_of_goes_before_the_wait(clock: Clock) -> None:
    let_go: list[float] = []
    assert RetryTimer(5).wait(lambda: let_go.append(clock.now), min_delay=0.1)
    assert (let_go, clock.now) == ([0.0], 0.1)


def test_what_fails_for_the_moment_is_asked_again_until_it_works() -> None:
    answers = iter([ConnectError("away"), RequestTimeoutError("still away")])

    def ask() -> str:
        if (error := next(answers, None)) is not None:
            raise error
        return "here"

    assert call_with_retry(ask, can_resume, 5) == "here"


def test_what_fails_for_good_is_asked_once() -> None:
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise PermissionError

    with pytest.raises(PermissionError):
        call_with_retry(ask, can_resume, 5)
    assert asked == [1]


def test_what_goes_on_failing_is_asked_until_the_time_is_up(clock: Clock) -> None:
    asked: list[float] = []

    def ask() -> None:
        asked.append(clock.now)
        raise ConnectError("away")

    with pytest.raises(ConnectError):
        call_with_retry(ask, can_resume, 0.3)
    assert len(asked) > 2
    assert asked[-1] - asked[0] < 0.3
