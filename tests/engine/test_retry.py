"""When to retry, for how long, and after which errors."""

from __future__ import annotations

import math

import pytest

from jetspark.engine.ranges import InterruptedReadError
from jetspark.engine.retry import ExponentialBackoff, can_create_later, can_resume, create_backoff, request_backoff
from jetspark.errors import (
    AuthenticationError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    DataLossError,
    DisconnectedError,
    Error,
    NoServersError,
    NoStreamResponseError,
    PermissionsViolationError,
    ProtocolError,
    RequestTimeoutError,
    SlowConsumerError,
    StaleConnectionError,
    TLSError,
    api_error,
)
from jetspark.jetstream.errors import JetStreamNotEnabledError

# -- requests ----------------------------------------------------------------------------------------------------------


def test_the_first_retry_comes_at_once_and_delays_double_up_to_two_seconds() -> None:
    backoff = request_backoff(1000.0)
    delays = [backoff.next_delay(10.0) for _ in range(9)]
    assert delays == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert backoff.retries == 9


def test_without_time_there_is_no_second_attempt() -> None:
    backoff = request_backoff(0.0)
    assert backoff.next_delay(5.0) is None
    assert backoff.retries == 0


def test_retries_end_when_the_next_attempt_would_come_too_late() -> None:
    backoff = request_backoff(1.0)
    assert backoff.next_delay(100.0) == 0.0
    assert backoff.next_delay(100.94) == 0.05
    assert backoff.next_delay(100.95) is None


def test_a_success_resets_the_delay_and_attempts_are_still_counted() -> None:
    backoff = request_backoff(1.0)
    assert [backoff.next_delay(0.0), backoff.next_delay(0.0)] == [0.0, 0.05]
    backoff.reset()
    assert [backoff.next_delay(50.0), backoff.next_delay(50.0)] == [0.0, 0.05]
    assert backoff.retries == 4


# -- pulls -------------------------------------------------------------------------------------------------------------


def test_delays_without_a_limit_double_from_the_shortest_to_the_longest_and_start_again_after_success() -> None:
    backoff = ExponentialBackoff(0.25, 2.0)
    assert [backoff.next_delay() for _ in range(5)] == [0.25, 0.5, 1.0, 2.0, 2.0]
    backoff.reset()
    assert backoff.next_delay() == 0.25


# -- ordered consumers -------------------------------------------------------------------------------------------------


@pytest.fixture
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ExponentialBackoff.__init__.__kwdefaults__ or {}, "chance", lambda: 0.0)


@pytest.mark.conformance("ORD-08")
@pytest.mark.usefixtures("no_jitter")
def test_waits_between_attempts_double_from_one_second_to_ten_and_start_again_after_success() -> None:
    backoff = create_backoff()
    assert [backoff.next_delay() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.reset()
    assert backoff.next_delay() == 1.0


@pytest.mark.usefixtures("no_jitter")
def test_a_reader_that_fails_for_hours_still_retries() -> None:
    backoff = create_backoff()
    assert [backoff.next_delay() for _ in range(2000)][-1] == 10.0


def test_r14_readers_that_failed_together_do_not_retry_together() -> None:
    assert ExponentialBackoff(1.0, 10.0, jitter=0.25, chance=lambda: 1.0).next_delay() == 0.75
    readers = [create_backoff() for _ in range(100)]
    for longest in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0):
        waits = {reader.next_delay() or math.nan for reader in readers}
        assert len(waits) > 90
        assert 0.75 * longest <= min(waits) < 0.85 * longest < 0.9 * longest < max(waits) <= longest


@pytest.mark.conformance("ORD-08")
@pytest.mark.usefixtures("no_jitter")
def test_attempts_are_limited() -> None:
    backoff = create_backoff(3)
    assert [backoff.next_delay() for _ in range(3)] == [1.0, 2.0, None]


# -- errors ------------------------------------------------------------------------------------------------------------

TRANSIENT: list[Error] = [
    ConnectError("x"),
    DisconnectedError("x"),
    JetStreamNotEnabledError(503, 0, "x"),
    NoServersError("x"),
    ProtocolError("x"),
    RequestTimeoutError("x"),
    SlowConsumerError("x"),
    StaleConnectionError("x"),
    NoStreamResponseError("x"),
    api_error(400, 10158),
    api_error(429, 0),
    api_error(503, 10008),
    api_error(503, 10076),
    api_error(503, 10118),
]
PERMANENT: list[Error] = [
    AuthenticationError("x"),
    ConfigError("x"),
    DataLossError("x"),
    PermissionsViolationError("x"),
    TLSError("x"),
    api_error(400, 10026),
    api_error(503, 10039),
    api_error(404, 10059),
]
NEEDS_RECREATION: list[Error] = [
    ConnectionClosedError("x"),
    InterruptedReadError("x"),
    api_error(404, 10014),
    api_error(404, 10149),
]
RESOURCES: list[Error] = [api_error(500, number) for number in (10002, 10023, 10028, 10047)]


def _name(error: Error) -> str:
    return f"{type(error).__name__}-{getattr(error, 'err_code', '')}"


@pytest.mark.conformance("ORD-07")
@pytest.mark.parametrize("error", TRANSIENT + RESOURCES, ids=_name)
def test_an_ordered_consumer_is_created_later_after_a_temporary_error(error: Error) -> None:
    assert can_create_later(error)


@pytest.mark.conformance("ORD-07")
@pytest.mark.parametrize("error", PERMANENT + NEEDS_RECREATION, ids=_name)
def test_a_permanent_error_ends_an_ordered_subscription(error: Error) -> None:
    assert not can_create_later(error)


@pytest.mark.parametrize("error", TRANSIENT + NEEDS_RECREATION, ids=_name)
def test_an_operation_with_its_own_connection_and_consumer_resumes(error: Error) -> None:
    assert can_resume(error)


@pytest.mark.parametrize("error", PERMANENT + RESOURCES, ids=_name)
def test_an_operation_does_not_resume_after_a_permanent_error(error: Error) -> None:
    assert not can_resume(error)
