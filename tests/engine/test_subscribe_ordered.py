"""The requests of an ordered subscription, and how it gets its next consumer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.engine.play import Play, start

from jetspark.engine.subscribe import (
    Binding,
    RequestNoWait,
    Subscribe,
    Unsubscribe,
    recreate_consumer,
)
from jetspark.errors import (
    RequestTimeoutError,
)
from jetspark.jetstream.api import (
    ConsumerDeleteRequest,
)
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


def ordered(config: ConsumerConfig | None = None) -> Binding:
    play = start(stream="S", ordered=True, config=config or ConsumerConfig()).done().created()
    bound: Binding = play.result
    assert bound.ordered is not None
    return bound


def again(bound: Binding) -> Play:
    return Play(recreate_consumer(bound, iter(["_INBOX.9"]).__next__))


def test_the_next_consumer_starts_after_the_last_good_message_on_a_new_inbox() -> None:
    since = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=NOW,
        inactive_threshold=timedelta(minutes=1),
        headers_only=True,
    )
    bound = ordered(since)
    assert bound.ordered is not None
    bound.ordered.last_sequence = 17
    play = again(bound)
    assert play.step == Unsubscribe()
    assert play.done().step == RequestNoWait(ConsumerDeleteRequest("S", "word1_1"))
    assert play.done().step == Subscribe("_INBOX.9", "")
    config = play.done().create().config
    assert (config.name, config.deliver_subject) == ("word1_2", "_INBOX.9")
    assert (config.deliver_policy, config.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 18)
    assert config.opt_start_time is None
    assert (config.inactive_threshold, config.headers_only) == (timedelta(minutes=1), True)
    renewed: Binding = play.created().result
    assert (renewed.consumer, renewed.deliver_subject, renewed.created) == ("word1_2", "_INBOX.9", True)


def test_the_start_policy_stays_until_the_first_message() -> None:
    config = again(ordered(ConsumerConfig(deliver_policy=DeliverPolicy.LAST))).done().done().done().create().config
    assert (config.deliver_policy, config.opt_start_seq) == (DeliverPolicy.LAST, None)


def test_new_messages_of_the_first_consumer_are_new_to_its_successor() -> None:
    config = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
    play = (
        start(stream="S", ordered=True, config=config)
        .done()
        .created(delivered=SequenceInfo(consumer_seq=0, stream_seq=41))
    )
    config = again(play.result).done().done().done().create().config
    assert (config.deliver_policy, config.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 42)


def test_a_new_message_that_overtakes_the_answer_does_not_change_the_start() -> None:
    config = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
    play = (
        start(stream="S", ordered=True, config=config)
        .done()
        .created(delivered=SequenceInfo(consumer_seq=1, stream_seq=42))
    )
    assert again(play.result).done().done().done().create().config.deliver_policy is DeliverPolicy.NEW


def test_a_consumer_whose_creation_failed_is_deleted_before_the_next_attempt() -> None:
    bound = ordered()
    play = again(bound).done().done().done().answer(RequestTimeoutError("late"))
    assert play.step == Unsubscribe()
    with pytest.raises(RequestTimeoutError):
        play.done()
    play = again(bound)
    assert play.done().step == RequestNoWait(ConsumerDeleteRequest("S", "word1_2"))
    assert play.done().done().create().config.name == "word1_3"
