"""Engines at their start, and their actions."""

from __future__ import annotations

from jetspark.engine.pull import (
    Action,
    End,
    PinIds,
    PullEngine,
    SendPull,
    Warn,
    consume_options,
    fetch_options,
)
from jetspark.errors import (
    Error,
)


def consumer(**options: object) -> PullEngine:
    """Return a consume that has started at time 0; its first pull is taken."""
    engine = PullEngine("S", "C", consume_options(**options), PinIds())  # type: ignore[arg-type]
    engine.start(0.0)
    assert pulls(engine.poll_actions())
    return engine


def fetcher(max_messages: int | None = 10, **options: object) -> PullEngine:
    """Return a fetch that has started at time 0; its pull is taken."""
    engine = PullEngine("S", "C", fetch_options(max_messages, **options), PinIds())  # type: ignore[arg-type]
    engine.start(0.0)
    assert len(engine.poll_actions()) == 1
    return engine


def pulls(actions: list[Action]) -> list[int]:
    """Return the batch sizes of the pulls in a list of actions."""
    return [action.request.batch for action in actions if isinstance(action, SendPull)]


def sizes(actions: list[Action]) -> list[int | None]:
    return [action.request.max_bytes for action in actions if isinstance(action, SendPull)]


def warnings(actions: list[Action]) -> list[type[Error]]:
    return [type(action.error) for action in actions if isinstance(action, Warn)]


def ends(actions: list[Action]) -> list[Error | None]:
    return [action.error for action in actions if isinstance(action, End)]
