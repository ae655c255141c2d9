"""When a server is left whose JetStream does not serve."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jetspark.engine.server_health import (
    LEAVE_AFTER,
    LONGEST_WAIT,
    EndCheck,
    LeaveServer,
    ProbeAgain,
    ProbeResult,
    ServerHealth,
    is_sign_of_trouble,
    result_of_error,
    worst_result,
)
from jetspark.errors import (
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    MissedHeartbeatError,
    NoRespondersError,
    PermissionsViolationError,
    PublishTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream.errors import JetStreamNotEnabledForAccountError

SILENT, UNAVAILABLE, ANSWERED = ProbeResult.SILENT, ProbeResult.UNAVAILABLE, ProbeResult.ANSWERED


def _run_until_left(health: ServerHealth, now: float, result: ProbeResult, took: float = 2.0) -> float:
    """Probe until the server is left; return the time."""
    for _ in range(1000):
        now += took
        step = health.probed(now, result, others_known=True)
        if isinstance(step, LeaveServer):
            return now
        assert isinstance(step, ProbeAgain)
        now += step.delay
    raise AssertionError("the server was not left")


@pytest.mark.parametrize(("result", "took"), [(SILENT, 2.0), (UNAVAILABLE, 0.0)])
def test_a_server_is_left_after_some_seconds_without_a_good_answer(result: ProbeResult, took: float) -> None:
    health = ServerHealth()
    assert health.suspect(100.0)
    assert LEAVE_AFTER <= _run_until_left(health, 100.0, result, took) - 100 <= LEAVE_AFTER + 1


def test_trouble_counts_from_the_begin_of_the_call_that_had_no_answer() -> None:
    health = ServerHealth()
    assert health.suspect(105.0, since=100.0)
    assert _run_until_left(health, 105.0, SILENT) == 107.0


def test_a_good_answer_ends_the_check_and_there_is_no_other_one_for_a_while() -> None:
    health = ServerHealth()
    assert health.suspect(0.0)
    assert not health.suspect(1.0)
    assert health.probed(1.0, ANSWERED, others_known=True) == EndCheck()
    assert not health.suspect(5.9)
    assert health.suspect(6.0)


def test_waits_between_two_leavings_double_until_an_answer_comes() -> None:
    health = ServerHealth()
    health.suspect(0.0)
    now, times = 0.0, []
    for _ in range(12):
        now = _run_until_left(health, now, SILENT)
        times.append(now)
    waits = [later - sooner for sooner, later in pairwise(times)]
    assert waits[0] <= LEAVE_AFTER + 2
    assert waits == sorted(waits)
    assert LONGEST_WAIT <= waits[-1] <= LONGEST_WAIT + 4
    assert health.probed(now + 1, ANSWERED, others_known=True) == EndCheck()
    assert health.suspect(now + 10)
    assert _run_until_left(health, now + 10, SILENT) <= now + 10 + LEAVE_AFTER + 2


def test_the_loss_of_the_cluster_starts_a_check_even_soon_after_a_good_answer() -> None:
    health = ServerHealth()
    health.suspect(0.0)
    assert health.probed(0.1, ANSWERED, others_known=True) == EndCheck()
    assert not health.suspect(0.2)
    health.lost_cluster()
    assert health.suspect(0.2)


def test_a_server_is_not_left_without_another_one() -> None:
    health = ServerHealth()
    health.suspect(0.0)
    assert health.probed(100.0, SILENT, others_known=False) == EndCheck()


def test_a_probe_that_may_not_have_arrived_says_nothing() -> None:
    health = ServerHealth()
    health.suspect(0.0)
    assert all(isinstance(health.probed(at, ProbeResult.UNKNOWN, others_known=True), ProbeAgain) for at in (1, 50, 999))


@pytest.mark.parametrize(
    ("results", "worst"),
    [
        ([ProbeResult.ANSWERED, ProbeResult.SILENT], ProbeResult.SILENT),
        ([ProbeResult.UNAVAILABLE, ProbeResult.ANSWERED], ProbeResult.UNAVAILABLE),
        ([ProbeResult.UNKNOWN, ProbeResult.UNAVAILABLE], ProbeResult.UNAVAILABLE),
        ([ProbeResult.ANSWERED, ProbeResult.CUT_OFF, ProbeResult.SILENT], ProbeResult.CUT_OFF),
        ([ProbeResult.REFUSED, ProbeResult.ANSWERED], ProbeResult.ANSWERED),
        ([ProbeResult.REFUSED], ProbeResult.REFUSED),
        ([], ProbeResult.REFUSED),
    ],
)
def test_the_worst_result_of_all_prefixes_counts(results: list[ProbeResult], worst: ProbeResult) -> None:
    assert worst_result(results) is worst


def test_each_result_has_a_weight() -> None:
    assert {worst_result([result]) for result in ProbeResult} == set(ProbeResult)


@pytest.mark.parametrize(
    ("error", "sign"),
    [
        (PublishTimeoutError("x"), True),
        (NoRespondersError("x"), True),
        (MissedHeartbeatError("x"), True),
        (JetStreamUnavailableError(503, 10008, "x"), True),
        (JetStreamNotEnabledError(503, 0, "x"), True),
        (JetStreamNotEnabledForAccountError(503, 10039, "x"), False),
        (StreamNotFoundError(404, 10059, "x"), False),
        (None, False),
    ],
)
def test_only_errors_of_an_absent_jetstream_are_signs_of_trouble(error: Exception | None, sign: bool) -> None:
    assert is_sign_of_trouble(error) is sign


def test_nobody_listens_counts_only_where_jetstream_has_answered_before() -> None:
    error = NoRespondersError("x")
    assert result_of_error(error, read_by_server=True, answered_before=True) is UNAVAILABLE
    assert result_of_error(error, read_by_server=True, answered_before=False) is ProbeResult.REFUSED
    denied = PermissionsViolationError("x", subject="$JS.API.INFO", operation="publish")
    assert result_of_error(denied, read_by_server=True, answered_before=True) is ProbeResult.REFUSED
    account = JetStreamNotEnabledForAccountError(503, 10039, "x")
    assert result_of_error(account, read_by_server=True, answered_before=True) is ANSWERED
