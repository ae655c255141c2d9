"""The messages that a consume reports as in progress (R26)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jetspark.engine.pull import HANDLE, InProgressTracker, consume_options
from jetspark.jetstream import ConsumerConfig
from jetspark.jetstream.message import JetStreamMessage, settle


def delivery(number: int) -> JetStreamMessage:
    return JetStreamMessage(b"s.a", b"$JS.ACK.S.c.1.%d.%d.1.0" % (number, number), b"", b"", "a connection")


def of(**fields: Any) -> InProgressTracker:
    """Return a tracker for a consumer with these fields."""
    config = ConsumerConfig(**fields)
    progress = InProgressTracker.for_consumer(lambda: config)
    assert progress is not None
    return progress


def test_buffered_and_current_messages_are_reported_until_they_are_acknowledged() -> None:
    progress = of()
    first, second, third = map(delivery, range(3))
    progress.set_current(HANDLE, first)
    assert progress.messages_to_report([second, third]) == [first, second, third]
    assert not progress.idle
    settle(first)
    settle(second)
    assert progress.messages_to_report([second, third]) == [third]
    assert progress.idle


def test_the_current_message_of_a_reader_is_the_last_one_it_returned() -> None:
    progress = of()
    one, other = progress.new_reader(), progress.new_reader()
    first, second, third = map(delivery, range(3))
    progress.set_current(one, first)
    progress.set_current(other, second)
    assert progress.messages_to_report() == [first, second]
    progress.set_current(one, third)
    assert progress.messages_to_report() == [third, second]
    progress.clear_current(other)
    assert progress.messages_to_report() == [third]
    progress.clear_current(one)
    assert progress.idle


def test_the_message_of_a_collected_reader_is_kept_until_the_next_message_is_requested() -> None:
    progress = of()
    first, second = map(delivery, range(2))
    reader = progress.new_reader()
    progress.set_current(reader, first)
    progress.reader_collected(reader)
    assert progress.messages_to_report() == [first]
    progress.set_current(HANDLE, second)
    assert progress.messages_to_report() == [second]
    progress.clear_current(HANDLE)
    assert progress.idle


def test_at_most_one_message_of_collected_readers_is_kept() -> None:
    progress = of()
    for number in range(1000):
        reader = progress.new_reader()
        progress.set_current(reader, delivery(number))
        progress.reader_collected(reader)
    assert len(progress.messages_to_report()) == 1


def test_iterating_readers_are_idle_after_the_consume_is_stopped() -> None:
    progress = of()
    progress.set_current(HANDLE, delivery(0))
    progress.set_current(progress.new_reader(), delivery(1))
    progress.stopped()
    assert progress.idle
    progress.set_current(HANDLE, delivery(2))  # by a thread that had taken it just before
    assert progress.idle


def test_a_callback_keeps_its_messages_after_the_consume_is_stopped_until_it_returns() -> None:
    progress = of()
    one, other = progress.add_handlers(2)
    progress.set_current(one, first := delivery(0))
    progress.set_current(other, second := delivery(1))
    progress.set_current(progress.new_reader(), delivery(2))
    progress.stopped()
    assert progress.messages_to_report() == [first, second]
    progress.clear_current(one)
    assert progress.messages_to_report() == [second]
    progress.clear_current(other)
    assert progress.idle


@pytest.mark.parametrize(
    ("fields", "interval"),
    [
        ({"ack_wait": timedelta(seconds=6)}, 2.0),
        ({"ack_wait": timedelta(seconds=6), "backoff": [timedelta(seconds=9), timedelta(seconds=3)]}, 1.0),
        ({}, 10.0),
    ],
)
def test_three_reports_fit_into_the_shortest_ack_wait_of_the_consumer(fields: dict[str, Any], interval: float) -> None:
    assert of(**fields).interval == pytest.approx(interval)


def test_the_interval_follows_the_latest_known_ack_wait() -> None:
    config = ConsumerConfig(ack_wait=timedelta(seconds=30))
    progress = InProgressTracker.for_consumer(lambda: config)
    assert progress is not None
    assert progress.interval == pytest.approx(10)
    config = ConsumerConfig(ack_wait=timedelta(seconds=3))
    assert progress.interval == pytest.approx(1)


def test_messages_reported_in_a_round_are_not_reported_again_in_it() -> None:
    progress = of()
    first, second, third, fourth = map(delivery, range(4))
    progress.set_current(HANDLE, first)
    assert progress.messages_to_report([second, third], {first, second}) == [third]
    progress.set_current(HANDLE, second)
    assert progress.messages_to_report([third, fourth], {first}) == [second, third, fourth]


def test_a_consumer_without_acknowledgements_needs_no_reports() -> None:
    config = ConsumerConfig(ack_policy="none")  # type: ignore[arg-type]
    assert InProgressTracker.for_consumer(lambda: config) is None


def test_reports_are_off_by_default() -> None:
    assert not consume_options().auto_in_progress
    assert consume_options(auto_in_progress=True).auto_in_progress
