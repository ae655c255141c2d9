"""The position of an ordered reader, and the configurations of its consumers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.engine.ordered_play import NOW, cursor, deliveries, delivery, info

from jetspark.engine.ordered_config import ordered_config, ordered_heartbeat
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.errors import (
    ConfigError,
)
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.wire.messages import Message

# -- the cursor ------------------------------------------------------------------------------------------------------


def test_an_ordered_consumer_has_the_configuration_of_an_ephemeral_consumer() -> None:
    config = cursor(filter_subject="a.>", headers_only=True, metadata={"k": "v"}).next_config()
    assert (config.name, config.durable_name) == ("o_1", None)
    assert (config.ack_policy, config.num_replicas, config.mem_storage) == (AckPolicy.NONE, 1, True)
    assert config.inactive_threshold == timedelta(minutes=5)
    assert (config.filter_subject, config.headers_only, config.metadata) == ("a.>", True, {"k": "v"})


@pytest.mark.parametrize("field", ["durable_name", "ack_policy", "deliver_subject", "num_replicas", "max_delivr"])
def test_fixed_fields_cannot_be_set(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ordered_config({field: "x"})


@pytest.mark.parametrize(
    ("fields", "subject"),
    [({}, ">"), ({"filter_subject": "a"}, "a"), ({"filter_subjects": ["a", "b"]}, None)],
)
def test_last_per_subject_needs_a_filter(fields: dict[str, object], subject: str | None) -> None:
    config = cursor(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, **fields).next_config()
    assert config.filter_subject == subject


def test_a_name_is_generated_and_a_given_one_is_checked() -> None:
    assert OrderedCursor(ConsumerConfig()).next_config().name != OrderedCursor(ConsumerConfig()).next_config().name
    with pytest.raises(ValueError, match="name"):
        OrderedCursor(ConsumerConfig(), "a.b")


def test_the_next_consumer_starts_after_the_last_good_message_and_keeps_all_else() -> None:
    where = cursor(
        deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=NOW, inactive_threshold=timedelta(seconds=7)
    )
    first = where.next_config()
    assert first.deliver_policy is DeliverPolicy.BY_START_TIME
    assert where.accept(deliveries(1, 6, shift=10))[0] == 5
    second = where.next_config()
    assert (second.name, second.deliver_policy, second.opt_start_seq) == ("o_2", DeliverPolicy.BY_START_SEQUENCE, 16)
    assert (second.opt_start_time, second.inactive_threshold) == (None, timedelta(seconds=7))


def test_the_start_policy_stays_until_the_first_message() -> None:
    where = cursor(deliver_policy=DeliverPolicy.LAST)
    where.next_config()
    where.created(info("o_1", stream_sequence=41))
    assert where.next_config().deliver_policy is DeliverPolicy.LAST


def test_new_means_new_since_the_creation_of_the_first_consumer() -> None:
    where = cursor(deliver_policy=DeliverPolicy.NEW)
    assert where.next_config().deliver_policy is DeliverPolicy.NEW
    where.created(info("o_1", stream_sequence=41))
    assert where.next_config().opt_start_seq == 42


@pytest.mark.parametrize("missing", range(1, 6))
def test_a_gap_is_found_at_every_position(missing: int) -> None:
    where = cursor()
    where.next_config()
    run = [message for message in deliveries(1, 7) if b".%d.1767" % missing not in message.raw_reply]
    good, last = where.accept(run)
    assert good == missing - 1
    assert where.last_sequence == (missing - 1 or None)
    assert (last is None) is (missing == 1)
    assert where.delivered == missing - 1


def test_a_message_without_ack_subject_is_not_a_delivery() -> None:
    where = cursor()
    where.next_config()
    forged = Message(b"a", b"", b"", b"", None)
    assert where.accept([delivery(1, 1), forged, delivery(2, 2)])[0] == 1
    assert where.accept([forged]) == (0, None)


def test_runs_follow_each_other() -> None:
    where = cursor()
    where.next_config()
    assert where.accept(deliveries(1, 4))[0] == 3
    assert where.accept(deliveries(4, 9))[0] == 5
    assert not where.heartbeat(8)
    assert where.heartbeat(9)


def test_the_default_heartbeat_is_five_seconds_where_that_fits() -> None:
    assert [ordered_heartbeat(timeout) for timeout in (30, 10, 9, 1)] == [5, 5, 4.5, 0.5]
