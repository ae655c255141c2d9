"""The consumers to which a subscription can bind, and the errors for the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.play import info, start

from jetspark.engine.subscribe import (
    Subscribe,
)
from jetspark.errors import (
    ConsumerAlreadyBoundError,
    ConsumerConfigMismatchError,
    DeliverGroupMismatchError,
    DeliverGroupMissingError,
    DeliverGroupRequiredError,
    Error,
    NotPullConsumerError,
    NotPushConsumerError,
    QueueFeatureError,
    SubjectMismatchError,
)
from jetspark.jetstream.api import (
    ConsumerInfoRequest,
)
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy

PUSH = ConsumerConfig(durable_name="c", deliver_subject="d")
GROUP = PUSH.replace(deliver_group="g")
PULL = ConsumerConfig(durable_name="c")


@pytest.mark.parametrize(
    ("existing", "bound", "options", "error"),
    [
        (PUSH, True, {}, ConsumerAlreadyBoundError),
        (GROUP, False, {}, DeliverGroupRequiredError),
        (GROUP, True, {}, DeliverGroupRequiredError),
        (GROUP, False, {"queue": "h"}, DeliverGroupMismatchError),
        (PUSH, False, {"queue": "g"}, DeliverGroupMissingError),
        (PUSH, True, {"queue": "g"}, DeliverGroupMissingError),
        (PULL, False, {}, NotPushConsumerError),
        (PUSH, False, {"pull": True}, NotPullConsumerError),
        (PUSH.replace(filter_subject="b"), False, {}, SubjectMismatchError),
        (PULL.replace(filter_subject="b"), False, {"pull": True}, SubjectMismatchError),
        (PUSH.replace(filter_subjects=["b", "c"]), False, {}, SubjectMismatchError),
        (GROUP.replace(idle_heartbeat=timedelta(seconds=1)), False, {"queue": "g"}, QueueFeatureError),
        (GROUP.replace(flow_control=True), False, {"queue": "g"}, QueueFeatureError),
        (
            PUSH.replace(filter_subjects=["b", "c"]),
            False,
            {"config": ConsumerConfig(filter_subjects=["b", "d"])},
            SubjectMismatchError,
        ),
    ],
)
def test_each_reason_against_binding_has_its_error(
    existing: ConsumerConfig, bound: bool, options: dict[str, Any], error: type[Error]
) -> None:
    play = start(stream="S", durable="c", **options)
    with pytest.raises(error, match="'c'") as caught:
        play.answer(info("c", existing, push_bound=bound))
    assert type(caught.value) is error
    assert play.steps == [ConsumerInfoRequest("S", "c")]


def test_a_queue_member_binds_to_a_consumer_of_its_group() -> None:
    play = start(stream="S", durable="c", queue="g").answer(info("c", GROUP, push_bound=True))
    assert play.step == Subscribe("d", "g")


def test_a_binding_without_subject_accepts_any_filter() -> None:
    play = start("", stream="S", consumer="c").answer(info("c", PUSH.replace(filter_subject="b")))
    assert play.step == Subscribe("d", "")


def test_one_of_several_filters_is_enough_and_their_order_does_not_matter() -> None:
    existing = PUSH.replace(filter_subjects=["b", "a"])
    assert start(stream="S", durable="c").answer(info("c", existing)).step == Subscribe("d", "")
    asked = ConsumerConfig(filter_subjects=["a", "b"])
    assert start(stream="S", durable="c", config=asked).answer(info("c", existing)).step == Subscribe("d", "")


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "asked", "existing"),
    [
        ("description", "mine", "theirs"),
        ("deliver_policy", DeliverPolicy.NEW, DeliverPolicy.ALL),
        ("opt_start_seq", 5, 6),
        ("opt_start_time", NOW, NOW + timedelta(seconds=1)),
        ("ack_policy", AckPolicy.ALL, AckPolicy.EXPLICIT),
        ("ack_wait", timedelta(seconds=1), timedelta(seconds=30)),
        ("max_deliver", 3, -1),
        ("replay_policy", ReplayPolicy.ORIGINAL, ReplayPolicy.INSTANT),
        ("rate_limit_bps", 1000, None),
        ("sample_freq", "30", None),
        ("max_ack_pending", 10, 1000),
        ("flow_control", True, None),
        ("flow_control", False, True),
        ("idle_heartbeat", timedelta(seconds=1), timedelta(seconds=2)),
        ("num_replicas", 3, 1),
        ("mem_storage", True, None),
        ("headers_only", True, None),
    ],
)
def test_every_set_field_must_match(field: str, asked: object, existing: object) -> None:
    play = start(stream="S", durable="c", config=ConsumerConfig().replace(**{field: asked}))
    with pytest.raises(ConsumerConfigMismatchError, match=field) as caught:
        play.answer(info("c", PUSH.replace(**{field: existing})))
    assert caught.value.differences == {field: (asked, existing)}


def test_max_waiting_of_a_pull_consumer_must_match_too() -> None:
    play = start(stream="S", durable="c", pull=True, config=ConsumerConfig(max_waiting=3))
    with pytest.raises(ConsumerConfigMismatchError, match="max_waiting is 512, not 3"):
        play.answer(info("c", PULL.replace(max_waiting=512)))


def test_a_durable_is_not_bound_to_an_ephemeral_consumer() -> None:
    with pytest.raises(ConsumerConfigMismatchError, match="durable_name is unset, not c"):
        start(stream="S", durable="c").answer(info("c", PUSH.replace(durable_name=None, name="c")))


def test_unset_fields_and_server_defaults_are_never_compared() -> None:
    existing = PUSH.replace(
        max_ack_pending=1000,
        ack_wait=timedelta(seconds=2),
        backoff=[timedelta(seconds=2)],
        metadata={"_nats.ver": "2.15"},
        deliver_subject="elsewhere",
        num_replicas=1,
    )
    asked = ConsumerConfig(
        max_ack_pending=0,
        num_replicas=0,
        flow_control=False,
        metadata={"mine": "1"},
        deliver_subject="d",
        ack_wait=timedelta(seconds=9),
        backoff=[timedelta(seconds=2)],
    )
    assert start(stream="S", durable="c", config=asked).answer(info("c", existing)).step == Subscribe("elsewhere", "")
