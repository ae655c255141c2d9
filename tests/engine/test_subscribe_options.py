"""Options that the subscribe workflow refuses before it sends any request."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.play import start

from jetspark.engine.subscribe import (
    merge_config,
)
from jetspark.errors import (
    BadNameError,
    BadSubjectError,
    ConfigError,
)
from jetspark.jetstream.config import AckPolicy, ConsumerConfig


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"queue": "q", "config": ConsumerConfig(idle_heartbeat=timedelta(seconds=1))}, "idle_heartbeat"),
        ({"queue": "q", "config": ConsumerConfig(flow_control=True)}, "flow_control"),
        ({"subject": ""}, "stream"),
        ({"pull": True, "config": ConsumerConfig(ack_policy=AckPolicy.NONE)}, "ack policy"),
        ({"pull": True, "config": ConsumerConfig(ack_policy=AckPolicy.ALL)}, "ack policy"),
        ({"pull": True, "config": ConsumerConfig(deliver_subject="d")}, "deliver_subject"),
        ({"pull": True, "queue": "q"}, "queue"),
        ({"consumer": "c"}, "stream"),
        ({"consumer": "c", "stream": "S", "durable": "d"}, "'c'"),
        ({"consumer": "c", "stream": "S", "config": ConsumerConfig(durable_name="d")}, "'c'"),
        ({"consumer": "c", "stream": "S", "config": ConsumerConfig(name="d")}, "'c'"),
        ({"durable": "c", "config": ConsumerConfig(durable_name="d")}, "durable"),
        ({"config": ConsumerConfig(filter_subject="b")}, "filter_subject"),
        ({"queue": "q", "config": ConsumerConfig(deliver_group="r")}, "deliver_group"),
    ],
)
def test_invalid_options_are_refused_before_any_request(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        start(**options)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        *itertools.product(["stream", "consumer", "durable", "queue"], ["a.b", "a b", "*", "a/b"]),
        *itertools.product(["stream", "consumer", "durable"], [""]),
    ],
)
def test_names_without_an_answer_of_the_server_are_refused_locally(option: str, name: str) -> None:
    with pytest.raises(BadNameError):
        start(**{"stream": "S", option: name})


def test_a_subject_that_cannot_be_sent_is_refused_locally() -> None:
    with pytest.raises(BadSubjectError):
        start("a..b")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"durable": "d"}, "name"),
        ({"config": ConsumerConfig(name="d")}, "name"),
        ({"consumer": "c", "stream": "S"}, "name"),
        ({"queue": "q"}, "queue"),
        ({"pull": True}, "pull"),
        ({"config": ConsumerConfig(deliver_subject="d")}, "deliver_subject"),
        ({"config": ConsumerConfig(ack_policy=AckPolicy.EXPLICIT)}, "ack policy"),
        ({"config": ConsumerConfig(max_deliver=2)}, "max_deliver"),
        ({"config": ConsumerConfig(flow_control=False)}, "flow_control"),
        ({"config": ConsumerConfig(mem_storage=False)}, "mem_storage"),
        ({"config": ConsumerConfig(num_replicas=1)}, "num_replicas"),
    ],
)
def test_options_that_an_ordered_subscription_sets_itself_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        start(ordered=True, **options)


def test_an_argument_may_repeat_the_configuration_but_not_contradict_it() -> None:
    second = timedelta(seconds=1)
    assert merge_config(None, idle_heartbeat=second) == ConsumerConfig(idle_heartbeat=second)
    assert (
        merge_config(ConsumerConfig(idle_heartbeat=second), idle_heartbeat=second, flow_control=None).flow_control
        is None
    )
    with pytest.raises(ConfigError, match="idle_heartbeat"):
        merge_config(ConsumerConfig(idle_heartbeat=second), idle_heartbeat=2 * second)
