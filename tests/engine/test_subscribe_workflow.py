"""The subscribe workflow, reply by reply: its requests, their order, and how it handles the answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.engine.play import Play, info, names, start

from jetspark.engine.subscribe import (
    Binding,
    Drain,
    Step,
    Subscribe,
    Unsubscribe,
    drain,
    unsubscribe,
)
from jetspark.engine.subscribe.workflow import CREATOR
from jetspark.errors import (
    ConfigError,
    ConsumerExistsError,
    ConsumerNotFoundError,
    Error,
    JetStreamNotEnabledError,
    NoMatchingStreamError,
    NotPullConsumerError,
    PermissionsViolationError,
    RequestTimeoutError,
    SubjectMismatchError,
    api_error,
)
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    StreamNamesRequest,
)
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.info import SequenceInfo

NOT_FOUND = api_error(404, 10014, "consumer not found")
EXISTS = api_error(400, 10148, "consumer already exists")


# -- the stream --------------------------------------------------------------------------------------------------------


def test_the_stream_is_found_by_subject() -> None:
    play = start("a.b")
    assert play.step == StreamNamesRequest(subject_filter="a.b")
    assert play.answer(names("S")).step == Subscribe("_INBOX.1", "")
    assert play.done().create().stream == "S"


@pytest.mark.parametrize("found", [(), ("S", "T")])
def test_no_stream_and_several_streams_are_no_match(found: tuple[str, ...]) -> None:
    play = start("a")
    with pytest.raises(NoMatchingStreamError, match=r"streams? match(es)? subject 'a'") as caught:
        play.answer(names(*found))
    assert caught.value.streams == found


@pytest.mark.parametrize("error", [api_error(503, 10039), JetStreamNotEnabledError(503), RequestTimeoutError("late")])
def test_an_error_of_the_lookup_is_raised_unchanged(error: Error) -> None:
    with pytest.raises(type(error)):
        start("a").answer(error)


def test_a_given_stream_is_not_looked_up_and_the_subject_is_the_filter() -> None:
    play = start("a", stream="S")
    assert play.step == Subscribe("_INBOX.1", "")
    assert play.done().create().config.filter_subject == "a"


# -- a consumer that exists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"durable": "c"},
        {"consumer": "c"},
        {"config": ConsumerConfig(durable_name="c")},
        {"config": ConsumerConfig(name="c")},
    ],
)
def test_a_named_consumer_is_looked_up_first_and_never_created_if_it_exists(options: dict[str, Any]) -> None:
    play = start(stream="S", **options)
    assert play.step == ConsumerInfoRequest("S", "c")
    assert play.answer(info(num_pending=7)).step == Subscribe("d", "")
    bound: Binding = play.done().result
    assert (bound.consumer, bound.created, bound.deliver_subject, bound.pending) == ("c", False, "d", 7)
    assert bound.acknowledged


def test_the_ack_policy_comes_from_the_server() -> None:
    bound = start(stream="S", consumer="c").answer(info(config=ConsumerConfig(deliver_subject="d"))).done().result
    assert not bound.acknowledged


@pytest.mark.parametrize(
    "error",
    [NOT_FOUND, api_error(404, 10059), JetStreamNotEnabledError(503), RequestTimeoutError("late")],
)
def test_binding_fails_if_the_lookup_fails(error: Error) -> None:
    play = start(stream="S", consumer="c")
    with pytest.raises(type(error)):
        play.answer(error)
    assert play.steps == [ConsumerInfoRequest("S", "c")]


@pytest.mark.parametrize(
    "error",
    [JetStreamNotEnabledError(503), RequestTimeoutError("late"), PermissionsViolationError("may not publish")],
)
def test_a_pull_binding_continues_if_nobody_answers_the_lookup(error: Error) -> None:
    bound: Binding = start(stream="S", consumer="c", pull=True).answer(error).result
    assert (bound.stream, bound.consumer, bound.created) == ("S", "c", False)


@pytest.mark.parametrize("error", [NOT_FOUND, api_error(404, 10059), api_error(503, 10039), api_error(503, 10076)])
def test_a_pull_binding_stops_after_a_definite_answer(error: Error) -> None:
    with pytest.raises(type(error)):
        start(stream="S", consumer="c", pull=True).answer(error)


@pytest.mark.parametrize("error", [api_error(404, 10059), JetStreamNotEnabledError(503), RequestTimeoutError("late")])
def test_a_durable_is_created_only_if_it_is_known_to_be_missing(error: Error) -> None:
    with pytest.raises(type(error)):
        start(stream="S", durable="c").answer(error)


def test_the_lookup_can_be_skipped() -> None:
    assert start(stream="S", durable="c", skip_lookup=True).step == Subscribe("_INBOX.1", "")
    assert start(stream="S", consumer="c", pull=True, skip_lookup=True).result.consumer == "c"
    unseen = ConsumerConfig(deliver_subject="d", deliver_group="g", ack_policy=AckPolicy.NONE)
    play = start(stream="S", consumer="c", skip_lookup=True, config=unseen)
    assert play.step == Subscribe("d", "g")
    assert (play.done().result.deliver_group, play.result.acknowledged) == ("g", False)
    with pytest.raises(ConfigError, match="deliver_subject"):
        start(stream="S", consumer="c", skip_lookup=True)


PUSH = ConsumerConfig(durable_name="c", deliver_subject="d")
PULL = ConsumerConfig(durable_name="c")


# -- creation ----------------------------------------------------------------------------------------------------------


def test_the_subscription_comes_before_the_creation() -> None:
    play = start(stream="S", durable="c").answer(NOT_FOUND)
    assert play.step == Subscribe("_INBOX.1", "")
    assert play.done().create().action is ConsumerAction.CREATE
    bound: Binding = play.created(num_pending=3, delivered=SequenceInfo(consumer_sequence=2)).result
    assert (bound.consumer, bound.created, bound.pending) == ("c", True, 5)
    assert [type(step) for step in play.steps] == [ConsumerInfoRequest, Subscribe, ConsumerCreateRequest]


def test_a_new_consumer_has_the_documented_defaults() -> None:
    request = start(stream="S", durable="c").answer(NOT_FOUND).done().create()
    assert request.endpoint == "CONSUMER.CREATE.S.c.a"
    assert request.config == ConsumerConfig(
        durable_name="c",
        filter_subject="a",
        deliver_subject="_INBOX.1",
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        replay_policy=ReplayPolicy.INSTANT,
        metadata={CREATOR: "word1"},
    )


def test_fields_of_the_caller_are_kept() -> None:
    given = ConsumerConfig(
        ack_policy=AckPolicy.ALL,
        deliver_policy=DeliverPolicy.NEW,
        replay_policy=ReplayPolicy.ORIGINAL,
        deliver_subject="mine",
        metadata={"team": "eu"},
        inactive_threshold=timedelta(hours=1),
    )
    config = start(stream="S", durable="c", config=given).answer(NOT_FOUND).done().create().config
    assert config == given.replace(durable_name="c", filter_subject="a", metadata={"team": "eu", CREATOR: "word1"})


def test_a_pull_consumer_has_no_deliver_subject_and_no_subscription() -> None:
    play = start(stream="S", durable="c", pull=True).answer(NOT_FOUND)
    assert play.create().config.deliver_subject is None
    assert play.created().result.created


def test_a_consumer_without_name_gets_one_and_is_removed_when_unused() -> None:
    play = start(stream="S", pull=True)
    assert play.create().endpoint == "CONSUMER.CREATE.S.word1.a"
    assert play.create().config.durable_name is None
    assert play.create().config.inactive_threshold == timedelta(seconds=5)
    assert play.created("as the server says").result.consumer == "as the server says"


def test_several_filters_stay_out_of_the_subject_of_the_request() -> None:
    request = start(stream="S", pull=True, config=ConsumerConfig(filter_subjects=["a.b", "a.c"])).create()
    assert request.endpoint == "CONSUMER.CREATE.S.word1"
    assert request.config.filter_subject is None


def test_the_queue_becomes_durable_name_and_deliver_group() -> None:
    play = start(stream="S", queue="q")
    assert play.step == ConsumerInfoRequest("S", "q")
    assert play.answer(NOT_FOUND).step == Subscribe("_INBOX.1", "q")
    config = play.done().create().config
    assert (config.durable_name, config.deliver_group) == ("q", "q")


def test_a_queue_with_a_durable_keeps_both_names() -> None:
    config = start(stream="S", queue="q", durable="c").answer(NOT_FOUND).done().create().config
    assert (config.durable_name, config.deliver_group) == ("c", "q")


@pytest.mark.parametrize(
    "error", [JetStreamNotEnabledError(503), RequestTimeoutError("late"), api_error(400, 10108, "needs heartbeats")]
)
def test_a_failed_creation_ends_the_subscription(error: Error) -> None:
    play = start(stream="S", durable="c").answer(NOT_FOUND).done().answer(error)
    assert play.step == Unsubscribe()
    with pytest.raises(type(error)):
        play.done()


def test_a_failed_pull_creation_has_no_subscription_to_end() -> None:
    with pytest.raises(RequestTimeoutError):
        start(stream="S", pull=True).answer(RequestTimeoutError("late"))


# -- the lost race -----------------------------------------------------------------------------------------------------

LOST = [EXISTS, api_error(400, 10013, "consumer name already in use"), api_error(400, 10105, "consumer already exists")]


@pytest.mark.parametrize("lost", LOST)
def test_a_queue_member_that_loses_the_race_moves_to_the_winners_subject(lost: Error) -> None:
    play = start(stream="S", queue="g").answer(NOT_FOUND).done().answer(lost)
    assert play.step == ConsumerInfoRequest("S", "g")
    winner = PUSH.replace(durable_name="g", deliver_group="g", deliver_subject="theirs")
    assert play.answer(info("g", winner, push_bound=True)).step == Unsubscribe()
    assert play.done().step == Subscribe("theirs", "g")
    assert (play.done().result.created, play.result.deliver_subject) == (False, "theirs")


@pytest.mark.parametrize("lost", LOST)
def test_a_pull_subscription_that_loses_the_race_binds(lost: Error) -> None:
    play = start(stream="S", durable="c", pull=True).answer(NOT_FOUND).answer(lost)
    bound: Binding = play.answer(info("c", PULL)).result
    assert not bound.created


def test_a_plain_push_subscription_that_loses_the_race_fails() -> None:
    play = start(stream="S", durable="c").answer(NOT_FOUND).done().answer(EXISTS)
    assert play.answer(info("c", PUSH)).step == Unsubscribe()
    with pytest.raises(ConsumerExistsError):
        play.done()


def test_the_loser_of_a_race_gets_an_error_if_the_winner_has_another_configuration() -> None:
    play = start(stream="S", queue="g").answer(NOT_FOUND).done().answer(EXISTS)
    winner = PUSH.replace(durable_name="g", deliver_group="g", filter_subject="b")
    assert play.answer(info("g", winner)).step == Unsubscribe()
    with pytest.raises(SubjectMismatchError):
        play.done()
    pull = start(stream="S", durable="c", pull=True).answer(NOT_FOUND).answer(EXISTS)
    with pytest.raises(NotPullConsumerError):
        pull.answer(info("c", PUSH))


def test_a_winner_that_is_deleted_meanwhile_is_an_error() -> None:
    play = start(stream="S", queue="g").answer(NOT_FOUND).done().answer(EXISTS).answer(NOT_FOUND)
    assert play.step == Unsubscribe()
    with pytest.raises(ConsumerNotFoundError):
        play.done()


# -- the end -----------------------------------------------------------------------------------------------------------


def binding(created: bool) -> Binding:
    return Binding("S", "c", created=created, pending=0, config=PUSH)


def test_unsubscribe_deletes_its_own_consumer_and_raises_if_that_fails() -> None:
    play = Play(unsubscribe(binding(created=True)))
    assert play.step == Unsubscribe()
    assert play.done().step == ConsumerDeleteRequest("S", "c")
    with pytest.raises(ConsumerNotFoundError):
        play.answer(NOT_FOUND)


def test_drain_deletes_when_all_is_handled_and_passes_the_error_on() -> None:
    play = Play(drain(binding(created=True)))
    assert play.step == Drain()
    assert play.done().step == ConsumerDeleteRequest("S", "c")
    assert play.answer(NOT_FOUND).result is NOT_FOUND


@pytest.mark.parametrize(("end", "step"), [(unsubscribe, Unsubscribe()), (drain, Drain())])
def test_an_existing_consumer_survives(end: Any, step: Step) -> None:
    play = Play(end(binding(created=False)))
    assert play.steps == [step]
    assert play.done().result is None
