"""Runs an operation repeatedly, and cancels it one await later each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal

__all__ = ["Moment", "cancel_everywhere"]

Moment = Literal["waiting", "woken"]
"""When an await is cancelled: at its start, or when its result is ready and the task has not continued yet."""

_MOST: int = 200


class _CancelledAt:
    """Awaits a coroutine and cancels the task at its n-th suspension."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], step: int, moment: Moment) -> None:
        self.reached = False
        self._coroutine = coroutine
        self._step = step
        self._moment = moment

    def __await__(self) -> Generator[Any, Any, object]:
        step = 0
        send: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731
        while True:
            try:
                waiting = send()
            except StopIteration as done:
                return done.value
            if step == self._step:
                self.reached = True
                self._cancel(waiting)
            step += 1
            try:
                value = yield waiting
            except BaseException as error:  # noqa: BLE001 - passed on
                send = _thrower(self._coroutine, error)
            else:
                send = _sender(self._coroutine, value)

    def _cancel(self, waiting: asyncio.Future[object] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._moment == "waiting":
            task.cancel()
        elif waiting is None:  # it yields its turn
            asyncio.get_running_loop().call_soon(task.cancel)
        else:  # this callback runs before the one that wakes the task, which asyncio adds now
            waiting.add_done_callback(lambda _: task.cancel())


def _sender(coroutine: Coroutine[Any, Any, object], value: object) -> Callable[[], Any]:
    return lambda: coroutine.send(value)


def _thrower(coroutine: Coroutine[Any, Any, object], error: BaseException) -> Callable[[], Any]:
    return lambda: coroutine.throw(error)


async def cancel_everywhere(
    operation: Callable[[], Coroutine[Any, Any, object]],
    after: Callable[[], Awaitable[object]],
    moment: Moment = "waiting",
    *,
    before: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Run the operation until the cancellation no longer reaches it; return how many awaits it has.

    Each time, the task must raise CancelledError and leave no task, and `after` checks other conditions. `before` runs
    before each operation and is not cancelled.
    """
    for step in range(_MOST):
        if before is not None:
            await before()
        present = asyncio.all_tasks()
        cancelled = _CancelledAt(operation(), step, moment)

        async def run(cancelled: _CancelledAt = cancelled) -> object:
            return await cancelled

        task = asyncio.create_task(run(), name=f"cancelled at await {step}")
        await asyncio.wait([task])
        if cancelled.reached:
            assert task.cancelled(), f"cancelled at await {step} it ended with {task!r}"
        else:
            task.result()
        await after()
        left = {each for each in asyncio.all_tasks() - present if not each.done()}
        assert not left, f"cancelled at await {step} it left {left}"
        if not cancelled.reached:
            return step
    raise AssertionError(f"more than {_MOST} awaits")
