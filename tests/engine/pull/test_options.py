"""Names, defaults and limits of ADR-37, checked before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jetspark.engine.pull import (
    BYTES_PULL_BATCH,
    ConsumeFields,
    MessageBatch,
    Priority,
    check_group,
    consume_options,
    fetch_options,
)
from jetspark.errors import ConfigError
from jetspark.jetstream import ConsumerConfig


def test_consume_has_the_documented_defaults() -> None:
    options = consume_options()
    assert (options.max_messages, options.max_bytes, options.timeout, options.idle_heartbeat) == (500, None, 30.0, 15.0)
    assert (options.threshold_messages, options.threshold_bytes) == (250, 0)
    assert options.is_consume
    assert not options.verify_on_reconnect


def test_the_heartbeat_is_half_of_expires_up_to_30_seconds() -> None:
    assert consume_options(timeout=1).idle_heartbeat == 0.5
    assert consume_options(timeout=300).idle_heartbeat == 30.0


def test_thresholds_are_half_rounded_up() -> None:
    assert [consume_options(max_messages=most).threshold_messages for most in (1, 2, 3, 10)] == [1, 1, 2, 5]
    options = consume_options(max_bytes=1001)
    assert (options.max_messages, options.threshold_bytes) == (BYTES_PULL_BATCH, 501)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (ConsumeFields(max_messages=10, max_bytes=10), "not both"),
        (ConsumeFields(max_messages=10, threshold_messages=11), "threshold_messages"),
        (ConsumeFields(threshold_messages=0), "threshold_messages"),
        (ConsumeFields(max_bytes=10, threshold_bytes=11), "threshold_bytes"),
        (ConsumeFields(threshold_bytes=1), "needs max_bytes"),
        (ConsumeFields(max_bytes=10, threshold_messages=1), "threshold_bytes"),
        (ConsumeFields(timeout=0.9), "timeout"),
        (ConsumeFields(idle_heartbeat=0.4), "idle_heartbeat"),
        (ConsumeFields(idle_heartbeat=31, timeout=100), "idle_heartbeat"),
        (ConsumeFields(idle_heartbeat=2, timeout=3), "idle_heartbeat"),
    ],
)
def test_invalid_options_of_consume_are_reported(wrong: ConsumeFields, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        consume_options(**wrong)


@pytest.mark.parametrize("priority", [-1, 10])
def test_options_that_the_server_would_refuse_are_refused_with_the_first_pull(priority: int) -> None:
    options = fetch_options(1, group="g", priority=priority)
    with pytest.raises(ConfigError, match="priority"):
        options.template("S", "C")


def test_a_fetch_needs_a_limit_and_time() -> None:
    with pytest.raises(ConfigError, match="max_messages or max_bytes"):
        fetch_options()
    with pytest.raises(ConfigError, match="timeout"):
        fetch_options(1, timeout=0)
    with pytest.raises(ConfigError, match="at least 1"):
        fetch_options(0).template("S", "C")
    with pytest.raises(ConfigError, match="heartbeat"):
        fetch_options(1, timeout=1, idle_heartbeat=0.6).template("S", "C")


@pytest.mark.parametrize(("timeout", "heartbeat"), [(30, None), (30.1, 5.0), (None, 5.0)])
def test_a_long_fetch_has_a_heartbeat(timeout: float | None, heartbeat: float | None) -> None:
    assert fetch_options(1, timeout=timeout).idle_heartbeat == heartbeat


def test_a_fetch_can_be_reduced_to_the_remaining_messages() -> None:
    options = fetch_options(10, timeout=None)
    assert options.remaining(0) is options
    assert options.remaining(3, 300) == replace(options, max_messages=7)
    assert options.remaining(10) is None
    bytes_too = fetch_options(10, max_bytes=1000, timeout=None)
    assert bytes_too.remaining(3, 300) == replace(bytes_too, max_messages=7, max_bytes=700, no_timeout=False)
    assert bytes_too.remaining(3, 1000) is None
    assert bytes_too.remaining(10, 300) is None


def test_the_deadline_of_a_fetch_is_after_its_timeout() -> None:
    assert fetch_options(1, timeout=4).deadline(10.0) == 15.0
    assert fetch_options(1, no_wait=True).deadline(10.0) == 15.0
    assert fetch_options(1, timeout=None).deadline(10.0) is None
    assert consume_options().deadline(10.0) is None


def test_all_options_are_part_of_the_pull() -> None:
    options = fetch_options(7, max_bytes=70, timeout=3, idle_heartbeat=1, group="g", min_pending=0, priority=0)
    request = options.template("S", "C")
    assert (request.batch, request.max_bytes, request.group) == (7, 70, "g")
    assert (request.expires, request.idle_heartbeat) == (timedelta(seconds=3), timedelta(seconds=1))
    assert (request.min_pending, request.min_ack_pending, request.priority) == (0, None, 0)
    assert b'"priority":0' in request.payload()
    assert b'"min_pending":0' in request.payload()


def test_the_group_is_checked_against_the_known_groups_of_the_consumer() -> None:
    grouped = ConsumerConfig(priority_groups=["g"])
    check_group(None, Priority(group="anything"))
    check_group(grouped, Priority(group="g"))
    check_group(ConsumerConfig(), Priority())
    for config, group in ((grouped, None), (grouped, "h"), (ConsumerConfig(), "g")):
        with pytest.raises(ConfigError, match="priority group"):
            check_group(config, Priority(group=group))


def test_a_batch_raises_its_error_after_the_last_message() -> None:
    whole = MessageBatch([1, 2, 3])
    assert (list(whole), whole.error) == ([1, 2, 3], None)
    cut = MessageBatch([1, 2])
    cut.error = ConfigError("why")
    given = iter(cut)
    assert [next(given), next(given)] == [1, 2]
    with pytest.raises(ConfigError, match="why"):
        next(given)
    assert (len(cut), cut[1]) == (2, 2)
