"""An ordered reader and the identity of its stream: created again, restored, or not to be seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.ordered_play import NOW, created_config, deliveries, delivery, info, kinds

from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import (
    CreateConsumer,
    DeleteConsumer,
    GetStreamInfo,
    OrderedEnd,
    Report,
    StartReading,
    Warn,
)
from jetspark.engine.ordered_config import ordered_config
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.ordered_stream import OnStreamRecreated, StreamMatch
from jetspark.errors import (
    ConfigError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    PermissionsViolationError,
    RequestTimeoutError,
    StreamNotFoundError,
    StreamRecreatedError,
    StreamUncheckedError,
)
from jetspark.events import ErrorOccurred, StreamRecreated
from jetspark.jetstream import DeliverPolicy, StreamConfig, StreamInfo
from jetspark.jetstream.info import StreamState

FIRST = NOW - timedelta(days=1)
SECOND = datetime(2026, 1, 2, tzinfo=UTC)


def stream(created: datetime = FIRST, last: int = 100) -> StreamInfo:
    return StreamInfo(config=StreamConfig(name="S"), created=created, state=StreamState(last_sequence=last))


def reader(
    on_stream_recreated: OnStreamRecreated = "error", *, known: bool = True, read: int = 3, **fields: object
) -> tuple[OrderedEngine, OrderedCursor]:
    """Return an engine that has read messages, and whose second consumer was just created."""
    cursor = OrderedCursor(ordered_config(fields), "o", on_stream_recreated)
    engine = OrderedEngine(cursor)
    engine.start()
    engine.created(info("o_1"))
    assert engine.poll_actions()[-2:] == [StartReading(info("o_1")), GetStreamInfo("o_1")]
    if known:
        engine.stream_received(0.0, "o_1", stream())
    if read:
        assert engine.accept(deliveries(1, read + 1)) == read
    engine.reset()
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer]
    engine.created(info("o_2"))
    assert engine.poll_actions() == [GetStreamInfo("o_2")]
    assert (engine.resetting, engine.reading) == (True, False)
    return engine, cursor


def test_the_same_stream_is_read_on() -> None:
    engine, cursor = reader()
    assert engine.accept(deliveries(1, 3)) == 0  # not before the comparison
    engine.stream_received(0.0, "o_2", stream())
    assert engine.poll_actions() == [StartReading(info("o_2"))]
    assert (engine.reading, cursor.last_sequence) == (True, 3)


@pytest.mark.parametrize("last", [0, 2, 1000])
@pytest.mark.parametrize("known", [True, False], ids=["known", "the first info did not come"])
def test_a_stream_that_was_created_again_ends_the_reading_with_an_error_and_an_event(known: bool, last: int) -> None:
    engine, _ = reader(known=known)
    engine.stream_received(0.0, "o_2", stream(SECOND, last))
    report, deletion, end = engine.poll_actions()
    assert isinstance(report, Report)
    assert isinstance(end, OrderedEnd)
    error = end.error
    assert isinstance(error, StreamRecreatedError)
    assert report.event == StreamRecreated("S", error, restarted=False)
    assert deletion == DeleteConsumer("o_2")
    assert (error.stream, error.last_sequence) == ("S", 3)
    assert str(error) == (
        "stream 'S' was deleted and created again at 2026-01-02T00:00:00+00:00; the ordered reader is at sequence 3 of "
        "the former one; read the present one with a new reader, or set on_stream_recreated='restart'"
    )
    assert engine.ended


@pytest.mark.parametrize(
    ("fields", "policy", "start"),
    [
        ({}, DeliverPolicy.ALL, None),
        ({"deliver_policy": "new"}, DeliverPolicy.ALL, None),
        ({"deliver_policy": "last"}, DeliverPolicy.ALL, None),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2}, DeliverPolicy.ALL, None),
        ({"deliver_policy": "by_start_time", "opt_start_time": NOW}, DeliverPolicy.BY_START_TIME, NOW),
        ({"deliver_policy": "last_per_subject"}, DeliverPolicy.LAST_PER_SUBJECT, None),
    ],
)
def test_a_restart_reads_the_new_stream_from_its_beginning(
    fields: dict[str, Any], policy: DeliverPolicy, start: datetime | None
) -> None:
    engine, cursor = reader("restart", **fields)
    engine.stream_received(0.0, "o_2", stream(SECOND, 50))
    actions = engine.poll_actions()
    assert kinds(actions) == [Report, DeleteConsumer, Warn, CreateConsumer]
    assert isinstance(actions[0], Report)
    assert isinstance(actions[0].event, StreamRecreated)
    assert actions[0].event.restarted
    config = created_config(actions)
    assert (config.deliver_policy, config.opt_start_seq, config.opt_start_time) == (policy, None, start)
    assert cursor.compare(stream(SECOND, 0)) is StreamMatch.SAME  # nothing of it was read
    engine.created(info("o_3"))
    engine.stream_received(0.0, "o_3", stream(SECOND, 50))
    assert StartReading(info("o_3")) in engine.poll_actions()
    assert engine.accept(deliveries(1, 3)) == 2
    assert cursor.last_sequence == 2
    engine.reset()
    engine.created(info("o_4"))
    engine.stream_received(0.0, "o_4", stream(SECOND, 50))
    assert engine.reading  # it is the same stream now


def test_messages_of_the_former_stream_that_were_not_taken_do_not_move_a_restarted_reader() -> None:
    engine, cursor = reader("restart")
    engine.stream_received(0.0, "o_2", stream(SECOND, 50))
    cursor.rewind(delivery(2, 2))  # of o_1
    assert cursor.last_sequence is None


@pytest.mark.parametrize("choice", ["error", "restart"])
def test_a_stream_that_lost_messages_counts_as_created_again_after_three_answers(choice: OnStreamRecreated) -> None:
    engine, cursor = reader(choice)
    now = 0.0
    for name in ("o_2", "o_3"):
        engine.stream_received(now, name, stream(last=2))
        assert engine.poll_actions() == [DeleteConsumer(name)]
        assert engine.retry_at is not None
        now = engine.retry_at
        engine.tick(now)
        assert kinds(engine.poll_actions()) == [CreateConsumer]
        engine.created(info(f"o_{int(name[2:]) + 1}"))
        engine.poll_actions()
    engine.stream_received(now, "o_4", stream(last=2))
    [report] = [action for action in engine.poll_actions() if isinstance(action, Report)]
    assert isinstance(report.event, StreamRecreated)
    assert "ends at sequence 2: it lost messages, or an older state was restored" in str(report.event.error)
    assert engine.ended == (choice == "error")
    assert cursor.last_sequence == (3 if choice == "error" else None)


def test_a_leader_that_lags_behind_is_asked_again() -> None:
    engine, _ = reader()
    engine.stream_received(0.0, "o_2", stream(last=2))
    assert engine.retry_at is not None
    engine.tick(engine.retry_at)
    engine.poll_actions()
    engine.created(info("o_3"))
    engine.stream_received(2.0, "o_3", stream(last=3))
    assert StartReading(info("o_3")) in engine.poll_actions()


@pytest.mark.parametrize("last", [0, 2, 3, 4, 1000])
def test_a_stream_that_was_created_again_before_the_first_look_at_it_is_seen_by_the_second(last: int) -> None:
    cursor = OrderedCursor(ordered_config({}), "o", "error")
    engine = OrderedEngine(cursor)
    engine.start()
    engine.created(info("o_1"))
    engine.accept(deliveries(1, 4))
    engine.stream_received(0.0, "o_1", stream(info("o_1").created + timedelta(seconds=1), last))
    engine.reset()
    engine.created(info("o_2"))
    engine.poll_actions()
    engine.stream_received(0.0, "o_2", stream(info("o_1").created + timedelta(seconds=1), last))
    assert OrderedEnd in kinds(engine.poll_actions())
    assert engine.ended


def test_a_reader_that_has_read_nothing_begins_with_the_new_stream_without_a_word() -> None:
    engine, cursor = reader(read=0)
    engine.stream_received(0.0, "o_2", stream(SECOND, 50))
    assert engine.poll_actions() == [StartReading(info("o_2"))]
    assert cursor.stream.created == SECOND


def test_a_start_sequence_of_the_former_stream_counts_although_nothing_was_read() -> None:
    engine, _ = reader(read=0, deliver_policy="by_start_sequence", opt_start_seq=9)
    engine.stream_received(0.0, "o_2", stream(SECOND, 50))
    assert engine.ended


def test_without_permission_it_reads_on_and_says_so_once() -> None:
    engine, _ = reader()
    engine.stream_failed(0.0, "o_2", PermissionsViolationError("not allowed"))
    report, start = engine.poll_actions()
    assert isinstance(report, Report)
    assert isinstance(report.event, ErrorOccurred)
    assert isinstance(report.event.error, StreamUncheckedError)
    assert "(not allowed); it reads on. Allow the request $JS.API.STREAM.INFO.S" in str(report.event.error)
    assert start == StartReading(info("o_2"))
    engine.reset()
    engine.poll_actions()
    engine.created(info("o_3"))
    assert engine.poll_actions() == [StartReading(info("o_3"))]


def test_without_permission_the_first_consumer_is_read_and_the_next_ones_are_not_compared() -> None:
    cursor = OrderedCursor(ordered_config({}), "o")
    engine = OrderedEngine(cursor)
    engine.start()
    engine.created(info("o_1"))
    engine.poll_actions()
    engine.stream_failed(0.0, "o_1", PermissionsViolationError("not allowed"))
    assert kinds(engine.poll_actions()) == [Report]
    engine.accept(deliveries(1, 3))
    engine.reset()
    engine.created(info("o_2"))
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer, StartReading]


def test_an_account_that_imports_no_stream_info_reads_on_and_says_so_once() -> None:
    engine, _ = reader()
    for name in ("o_2", "o_3"):
        engine.stream_failed(0.0, name, JetStreamNotEnabledError(503))
        assert (Report in kinds(engine.poll_actions())) == (name == "o_2")
        assert engine.reading
        engine.reset()
        engine.poll_actions()
        engine.created(info(f"o_{int(name[2:]) + 1}"))
        engine.poll_actions()


def test_an_answer_that_does_not_come_is_awaited_three_times() -> None:
    engine, _ = reader()
    for name in ("o_2", "o_3"):
        engine.stream_failed(0.0, name, RequestTimeoutError("no answer"))
        assert kinds(engine.poll_actions()) == [DeleteConsumer, Warn]
        engine.tick(100.0)
        engine.poll_actions()
        engine.created(info(f"o_{int(name[2:]) + 1}"))
        engine.poll_actions()
    engine.stream_failed(0.0, "o_4", RequestTimeoutError("no answer"))
    assert kinds(engine.poll_actions()) == [Report, StartReading]


def test_a_stream_that_is_deleted_before_the_comparison_ends_the_reading() -> None:
    engine, _ = reader()
    engine.stream_failed(0.0, "o_2", StreamNotFoundError(404, 10059))
    deletion, end = engine.poll_actions()
    assert deletion == DeleteConsumer("o_2")
    assert isinstance(end, OrderedEnd)
    assert isinstance(end.error, StreamNotFoundError)


@pytest.mark.parametrize("error", [None, DisconnectedError()])
def test_an_answer_of_an_earlier_session_is_ignored(error: Error | None) -> None:
    engine, _ = reader()
    engine.suspend()
    engine.resume()
    engine.poll_actions()
    if error is None:
        engine.stream_received(0.0, "o_2", stream(SECOND))
    else:
        engine.stream_failed(0.0, "o_2", error)
    assert engine.poll_actions() == []
    assert not engine.ended


def test_a_stop_before_the_comparison_deletes_the_consumer() -> None:
    engine, _ = reader()
    engine.stop()
    assert engine.poll_actions() == [DeleteConsumer("o_2"), OrderedEnd(None)]
    engine.stream_received(0.0, "o_2", stream())
    assert engine.poll_actions() == []


def test_another_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_stream_recreated must be 'error' or 'restart', not 'ignore'"):
        OrderedCursor(ordered_config({}), "o", "ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", ["error", "restart"])
def test_only_a_reader_that_restarts_waits_until_a_deleted_stream_is_created_again(choice: OnStreamRecreated) -> None:
    cursor = OrderedCursor(ordered_config({}), "o", choice)
    engine = OrderedEngine(cursor)
    engine.start()
    engine.created(info("o_1"))
    engine.reset()
    engine.failed(0.0, "o_2", StreamNotFoundError(404, 10059))
    assert engine.ended == (choice == "error")
    assert (engine.retry_at is not None) == (choice == "restart")


def test_a_reader_whose_stream_never_was_there_ends() -> None:
    engine = OrderedEngine(OrderedCursor(ordered_config({}), "o", "restart"))
    engine.start()
    engine.failed(0.0, "o_1", StreamNotFoundError(404, 10059))
    assert engine.ended
