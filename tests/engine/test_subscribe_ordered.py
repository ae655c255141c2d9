"""The requests of an ordered subscription for its first consumer and for the next ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.engine.play import start

from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.info import SequenceInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_ordered_subscription_requests_the_documented_configuration() -> None:
    request = start(stream="S", ordered=True).done().create()
    assert request.endpoint == "CONSUMER.CREATE.S.word1_1.a"
    assert request.config == ConsumerConfig(
        name="word1_1",
        filter_subject="a",
        deliver_subject="_INBOX.1",
        deliver_policy=DeliverPolicy.ALL,
        replay_policy=ReplayPolicy.INSTANT,
        ack_policy=AckPolicy.NONE,
        max_deliver=1,
        flow_control=True,
        mem_storage=True,
        num_replicas=1,
        ack_wait=timedelta(hours=22),
        idle_heartbeat=timedelta(seconds=5),
        inactive_threshold=timedelta(seconds=5),
    )


def bound(config: ConsumerConfig, consumer_sequence: int = 0, stream_sequence: int = 0) -> OrderedCursor:
    """Return the cursor of a subscription whose first consumer exists."""
    play = start(stream="S", ordered=True, config=config).done()
    delivered = SequenceInfo(consumer_sequence=consumer_sequence, stream_sequence=stream_sequence)
    cursor = play.created(delivered=delivered).result.ordered
    assert isinstance(cursor, OrderedCursor)
    return cursor


def test_the_next_consumer_keeps_the_rest_of_the_configuration() -> None:
    since = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=NOW,
        inactive_threshold=timedelta(minutes=1),
        headers_only=True,
    )
    cursor = bound(since)
    cursor.last_sequence = 17
    config = cursor.next_config()
    assert (config.name, config.deliver_subject) == ("word1_2", None)  # the front chooses the inbox
    assert (config.deliver_policy, config.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 18)
    assert config.opt_start_time is None
    assert (config.inactive_threshold, config.headers_only) == (timedelta(minutes=1), True)
    assert (config.flow_control, config.idle_heartbeat) == (True, timedelta(seconds=5))


def test_new_messages_of_the_first_consumer_are_new_to_its_successor() -> None:
    config = bound(ConsumerConfig(deliver_policy=DeliverPolicy.NEW), stream_sequence=41).next_config()
    assert (config.deliver_policy, config.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 42)


def test_a_new_message_that_overtakes_the_answer_does_not_change_the_start() -> None:
    cursor = bound(ConsumerConfig(deliver_policy=DeliverPolicy.NEW), consumer_sequence=1, stream_sequence=42)
    assert (cursor.start, cursor.pending) == (0, 1)
    assert cursor.next_config().deliver_policy is DeliverPolicy.NEW
