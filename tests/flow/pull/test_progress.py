"""Which messages a consume reports as in progress (R26)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jetspark.flow.pull import Progress, consume_options
from jetspark.jetstream import ConsumerConfig
from jetspark.jetstream.delivery import Delivery


def delivery(number: int) -> Delivery:
    return Delivery(b"s.a", b"$JS.ACK.S.c.1.%d.%d.1.0" % (number, number), b"", b"", "a connection")


def nobody(worker: object) -> bool:
    return False


def test_what_waits_and_what_is_worked_on_is_reported_until_it_is_settled() -> None:
    progress = Progress(30.0)
    first, second, third = map(delivery, range(3))
    progress.began("worker", first)
    assert progress.due([second, third], nobody) == [first, second, third]
    first._settle()
    second._settle()
    assert progress.due([second, third], nobody) == [third]


def test_a_message_that_its_worker_has_left_is_reported_no_longer() -> None:
    progress = Progress(30.0)
    first, second = map(delivery, range(2))
    progress.began("worker", first)
    progress.began("other", second)
    progress.began("worker", third := delivery(2))
    assert progress.due([], nobody) == [third, second]
    progress.ended("worker")
    assert progress.due([], nobody) == [second]
    assert not progress.idle
    assert progress.due([], lambda worker: worker == "other") == []
    assert progress.idle


def test_who_iterates_is_done_when_the_consume_is_stopped_and_a_callback_is_not() -> None:
    progress = Progress(30.0)
    progress.handler = "callback"
    progress.began("callback", first := delivery(0))
    progress.began("iteration", delivery(1))
    progress.stopped()
    assert progress.due([], nobody) == [first]


@pytest.mark.parametrize(
    ("config", "interval"),
    [
        (ConsumerConfig(ack_wait=timedelta(seconds=6)), 2.0),
        (ConsumerConfig(ack_wait=timedelta(seconds=6), backoff=[timedelta(seconds=9), timedelta(seconds=3)]), 1.0),
        (ConsumerConfig(), 10.0),
    ],
)
def test_there_are_three_reports_within_the_shortest_wait_of_the_consumer(
    config: ConsumerConfig, interval: float
) -> None:
    progress = Progress.of(config)
    assert progress is not None
    assert progress.interval == pytest.approx(interval)


def test_a_consumer_without_acknowledgements_wants_no_reports() -> None:
    assert Progress.of(ConsumerConfig(ack_policy="none")) is None  # type: ignore[arg-type]


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert not consume_options().auto_in_progress
    assert consume_options(auto_in_progress=True).auto_in_progress
