"""Drives the subscribe workflow by hand, and gives it answers."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

from jetspark.engine.subscribe import (
    Drain,
    Step,
    Subscribe,
    SubscribeOptions,
    Unsubscribe,
    subscribe,
)
from jetspark.errors import (
    Error,
)
from jetspark.jetstream.api import (
    ConsumerCreateRequest,
)
from jetspark.jetstream.api.paging import Page
from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.info import ConsumerInfo

__all__ = ["Play", "info", "names", "start"]


class Play:
    """Drives a workflow by hand: `step` is its next step, `result` its end."""

    def __init__(self, workflow: Generator[Step, Any, Any]) -> None:
        self._workflow = workflow
        self.steps: list[Step] = []
        self.result: Any = None
        self.ended = False
        self.answer(None)

    @property
    def step(self) -> Step:
        assert not self.ended, f"it ended with {self.result!r}"
        return self.steps[-1]

    def answer(self, value: Any) -> Play:
        try:
            self.steps.append(self._workflow.throw(value) if isinstance(value, Error) else self._workflow.send(value))
        except StopIteration as stop:
            self.result, self.ended = stop.value, True
        return self

    def done(self) -> Play:
        """Confirm a step that the front has done."""
        assert isinstance(self.step, Subscribe | Unsubscribe | Drain)
        return self.answer(None)

    def create(self) -> ConsumerCreateRequest:
        assert isinstance(self.step, ConsumerCreateRequest)
        return self.step

    def created(self, name: str | None = None, **state: Any) -> Play:
        """Answer that the requested consumer was created."""
        config = self.create().config
        return self.answer(info(name or config.durable_name or config.name or "made-up", config, **state))


def start(subject: str = "a", **options: Any) -> Play:
    inboxes, words = (f"_INBOX.{number}" for number in itertools.count(1)), (f"word{n}" for n in itertools.count(1))
    chosen = SubscribeOptions(subject=subject, **options)
    return Play(subscribe(chosen, inboxes.__next__, words.__next__))


def info(name: str = "c", config: ConsumerConfig | None = None, **state: Any) -> ConsumerInfo:
    config = config or ConsumerConfig(durable_name=name, deliver_subject="d", ack_policy=AckPolicy.EXPLICIT)
    return ConsumerInfo(stream_name="S", name=name, created=datetime.now(UTC), config=config, **state)


def names(*streams: str) -> Page[str]:
    return Page(list(streams), len(streams), 0, 1024)
