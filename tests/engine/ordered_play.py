"""An ordered consumer for which a test plays the server."""

from __future__ import annotations

from datetime import UTC, datetime

from jetspark.engine.catch_up import LeaderCatchUp
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import (
    CreateConsumer,
    OrderedAction,
    StartReading,
)
from jetspark.engine.ordered_config import ordered_config
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.errors import PermissionsViolationError
from jetspark.jetstream import ConsumerConfig, ConsumerInfo
from jetspark.jetstream.info import SequenceInfo
from jetspark.wire.messages import Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cursor(**fields: object) -> OrderedCursor:
    """Return a cursor whose user may not request the stream's info, so that the stream is not compared."""
    where = OrderedCursor(ordered_config(fields), "o")
    assert where.stream.failed(PermissionsViolationError())
    return where


def delivery(consumer_sequence: int, stream_sequence: int, pending: int = 9) -> Message:
    reply = b"$JS.ACK.S.o_1.1.%d.%d.1767225600000000000.%d" % (stream_sequence, consumer_sequence, pending)
    return Message(b"a", reply, b"", b"", None)


def deliveries(first: int, end: int, *, shift: int = 0, pending: int = 9) -> list[Message]:
    return [delivery(number, number + shift, pending) for number in range(first, end)]


def info(name: str, *, pending: int = 9, stream_sequence: int = 0, consumer_sequence: int = 0) -> ConsumerInfo:
    return ConsumerInfo(
        stream_name="S",
        name=name,
        created=NOW,
        num_pending=pending,
        delivered=SequenceInfo(consumer_sequence=consumer_sequence, stream_sequence=stream_sequence),
    )


def running(
    report_caught_up: bool = False, pending: int = 9, delay_after_idle: bool = False, **fields: object
) -> tuple[OrderedEngine, OrderedCursor]:
    """Return an engine whose first consumer exists and is being read."""
    where = cursor(**fields)
    catch_up = LeaderCatchUp(where) if report_caught_up else None
    engine = OrderedEngine(where, catch_up=catch_up, delay_after_idle=delay_after_idle)
    engine.start()
    assert [type(action) for action in engine.poll_actions()] == [CreateConsumer]
    engine.created(info("o_1", pending=pending))
    assert engine.poll_actions() == [StartReading(info("o_1", pending=pending))]
    return engine, where


def kinds(actions: list[OrderedAction]) -> list[type[OrderedAction]]:
    return [type(action) for action in actions]


def created_config(actions: list[OrderedAction]) -> ConsumerConfig:
    [create] = [action for action in actions if isinstance(action, CreateConsumer)]
    return create.config
