"""Options that subscribe refuses before it asks the server, and options that the server refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api.subscribing.support import live
from tests.fronts import Ground

from jetspark.errors import APIError, BadNameError, ConfigError
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"queue": "q", "idle_heartbeat": 1.0}, marks=pytest.mark.conformance("CFG-01")),
        pytest.param({"queue": "q", "flow_control": True}, marks=pytest.mark.conformance("CFG-01")),
        pytest.param(
            {"queue": "q", "config": ConsumerConfig(idle_heartbeat=SECOND)}, marks=pytest.mark.conformance("CFG-01")
        ),
        pytest.param({"subject": ""}, marks=pytest.mark.conformance("CFG-02")),
        pytest.param(
            {"durable": "a", "config": ConsumerConfig(durable_name="b")}, marks=pytest.mark.conformance("CFG-04")
        ),
        pytest.param({"durable": "a.b"}, marks=pytest.mark.conformance("CFG-05")),
        pytest.param({"queue": "a b"}, marks=pytest.mark.conformance("CFG-05", "QUE-01")),
        pytest.param({"stream": "a*"}, marks=pytest.mark.conformance("CFG-05")),
    ],
)
async def test_invalid_push_options_are_refused_before_any_request(ground: Ground, options: dict[str, Any]) -> None:
    spy = await ground.spy()
    with pytest.raises((ConfigError, BadNameError)):
        await ground.js.subscribe(**{"subject": "a", **options})
    assert await spy.settled() == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"config": ConsumerConfig(ack_policy=AckPolicy.NONE)}, marks=pytest.mark.conformance("CFG-03")),
        pytest.param({"config": ConsumerConfig(ack_policy=AckPolicy.ALL)}, marks=pytest.mark.conformance("CFG-03")),
        pytest.param({"config": ConsumerConfig(deliver_subject="d")}, marks=pytest.mark.conformance("CFG-04")),
        pytest.param({"subject": ""}, marks=pytest.mark.conformance("CFG-02")),
        pytest.param({"durable": "a.b"}, marks=pytest.mark.conformance("CFG-05")),
    ],
)
async def test_invalid_pull_options_are_refused_before_any_request(ground: Ground, options: dict[str, Any]) -> None:
    spy = await ground.spy()
    with pytest.raises((ConfigError, BadNameError)):
        await ground.js.pull_subscribe(**{"subject": "a", **options})
    assert await spy.settled() == []


@pytest.mark.conformance("CFG-04")
@pytest.mark.blocking
async def test_binding_needs_a_stream_and_a_consumer_and_no_second_name(ground: Ground) -> None:
    spy = await ground.spy()
    with pytest.raises(ConfigError, match="consumer"):
        await ground.js.subscribe_bind("S")
    with pytest.raises(ConfigError, match="stream"):
        await ground.js.pull_subscribe_bind("c")
    with pytest.raises(ConfigError, match="'c'"):
        await ground.js.subscribe_bind("S", ConsumerConfig(durable_name="d"), "c")
    with pytest.raises(ConfigError, match="'c'"):
        await ground.js.pull_subscribe_bind("c", "S", config=ConsumerConfig(durable_name="d"))
    assert await spy.settled() == []


async def test_an_argument_that_contradicts_the_configuration_is_refused(js: Any) -> None:
    with pytest.raises(ConfigError, match="idle_heartbeat"):
        await js.subscribe("a", idle_heartbeat=2, config=ConsumerConfig(idle_heartbeat=SECOND))
    with pytest.raises(ConfigError, match="factor"):
        await js.subscribe("a", heartbeat_alarm_factor=0.5)
    with pytest.raises(ConfigError, match="statuses"):
        await js.subscribe("a", ordered_consumer=True, manage_status=False)


@pytest.mark.conformance("CFG-07", "CRE-07")
@pytest.mark.parametrize(
    ("err_code", "config"),
    [
        (10080, ConsumerConfig(max_waiting=5)),
        (10094, ConsumerConfig(opt_start_seq=5)),
        (10108, ConsumerConfig(flow_control=True)),
        (10083, ConsumerConfig(idle_heartbeat=timedelta(milliseconds=50))),
    ],
)
async def test_a_refused_configuration_has_its_error_code_and_leaves_no_subscription(
    ground: Ground, err_code: int, config: ConsumerConfig
) -> None:
    stream = await ground.stream()
    before = live(ground.nc)
    with pytest.raises(APIError) as caught:
        await ground.js.subscribe(f"{stream.name}.a", config=config)
    assert caught.value.err_code == err_code
    assert live(ground.nc) == before


@pytest.mark.conformance("CFG-07")
@pytest.mark.parametrize(("err_code", "suffix"), [(10079, ".*"), (10081, "")])
@pytest.mark.parametrize("profile", ["default", "v2_domain"], indirect=True)
async def test_a_refused_deliver_subject_has_its_error_code(ground: Ground, err_code: int, suffix: str) -> None:
    stream = await ground.stream()
    with pytest.raises(APIError) as caught:
        await ground.js.subscribe(f"{stream.name}.a", config=ConsumerConfig(deliver_subject=f"{stream.name}.a{suffix}"))
    assert caught.value.err_code == err_code


@pytest.mark.conformance("CFG-07")
@pytest.mark.parametrize(
    ("err_code", "config"), [(10088, ConsumerConfig(idle_heartbeat=SECOND)), (10089, ConsumerConfig(flow_control=True))]
)
async def test_the_server_refuses_heartbeats_and_flow_control_of_a_pull_consumer(
    ground: Ground, err_code: int, config: ConsumerConfig
) -> None:
    stream = await ground.stream()
    with pytest.raises(APIError) as caught:
        await ground.js.pull_subscribe(f"{stream.name}.a", "c", config=config)
    assert caught.value.err_code == err_code


async def test_arguments_reach_the_configuration(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(
        f"{stream.name}.a",
        idle_heartbeat=0.5,
        flow_control=True,
        deliver_policy=DeliverPolicy.NEW,
        headers_only=True,
        inactive_threshold=timedelta(seconds=9),
    )
    config = (await subscription.consumer_info()).config
    assert (config.idle_heartbeat, config.flow_control) == (timedelta(seconds=0.5), True)
    assert (config.deliver_policy, config.headers_only) == (DeliverPolicy.NEW, True)
    assert config.inactive_threshold == timedelta(seconds=9)
