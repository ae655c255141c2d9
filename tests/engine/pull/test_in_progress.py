"""Which messages a consume reports as in progress (R26)."""

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
    """For a consumer with these fields."""
    config = ConsumerConfig(**fields)
    progress = InProgressTracker.for_consumer(lambda: config)
    assert progress is not None
    return progress


def test_what_waits_and_what_is_worked_on_is_reported_until_it_is_settled() -> None:
    progress = of()
    first, second, third = map(delivery, range(3))
    progress.set_current(HANDLE, first)
    assert progress.messages_to_report([second, third]) == [first, second, third]
    assert not progress.idle
    settle(first)
    settle(second)
    assert progress.messages_to_report([second, third]) == [third]
    assert progress.idle


def test_each_reader_is_at_the_message_that_it_gave_last() -> None:
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


def test_what_a_reader_gave_that_is_no_more_is_kept_until_the_next_message_is_asked_for() -> None:
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


def test_no_more_is_kept_than_readers_and_one() -> None:
    progress = of()
    for number in range(1000):
        reader = progress.new_reader()
        progress.set_current(reader, delivery(number))
        progress.reader_collected(reader)
    assert len(progress.messages_to_report()) == 1


def test_who_iterates_is_done_when_the_consume_is_stopped() -> None:
    progress = of()
    progress.set_current(HANDLE, delivery(0))
    progress.set_current(progress.new_reader(), delivery(1))
    progress.stopped()
    assert progress.idle
    progress.set_current(HANDLE, delivery(2))  # by a thread that had taken it just before
    assert progress.idle


def test_a_callback_is_at_its_message_when_the_consume_is_stopped_until_it_returns() -> None:
    progress = of()
    progress.has_callback = True
    progress.set_current(HANDLE, first := delivery(0))
    progress.stopped()
    assert progress.messages_to_report() == [first]
    progress.clear_current(HANDLE)
    assert progress.idle


@pytest.mark.parametrize(
    ("fields", "interval"),
    [
        ({"ack_wait": timedelta(seconds=6)}, 2.0),
        ({"ack_wait": timedelta(seconds=6), "backoff": [timedelta(seconds=9), timedelta(seconds=3)]}, 1.0),
        ({}, 10.0),
    ],
)
def test_there_are_three_reports_within_the_shortest_wait_of_the_consumer(
    fields: dict[str, Any], interval: float
) -> None:
    assert of(**fields).interval == pytest.approx(interval)


def test_the_wait_is_the_one_that_the_consumer_is_known_to_have_now() -> None:
    config = ConsumerConfig(ack_wait=timedelta(seconds=30))
    progress = InProgressTracker.for_consumer(lambda: config)
    assert progress is not None
    assert progress.interval == pytest.approx(10)
    config = ConsumerConfig(ack_wait=timedelta(seconds=3))
    assert progress.interval == pytest.approx(1)


def test_what_was_reported_in_a_round_is_not_due_in_it_again_nor_what_was_left_meanwhile() -> None:
    progress = of()
    first, second, third, fourth = map(delivery, range(4))
    progress.set_current(HANDLE, first)
    assert progress.messages_to_report([second, third], {first, second}) == [third]
    progress.set_current(HANDLE, second)
    assert progress.messages_to_report([third, fourth], {first}) == [second, third, fourth]


def test_a_consumer_without_acknowledgements_wants_no_reports() -> None:
    config = ConsumerConfig(ack_policy="none")  # type: ignore[arg-type]
    assert InProgressTracker.for_consumer(lambda: config) is None


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert not consume_options().auto_in_progress
    assert consume_options(auto_in_progress=True).auto_in_progress
