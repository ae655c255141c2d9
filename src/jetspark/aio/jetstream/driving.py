"""Drives a workflow of `jetspark.flow.subscribing`: sends its requests, and lets somebody do the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from jetspark.flow.subscribing import Forget, Step
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, Request
from jetspark.jetstream.errors import Error
from jetspark.jetstream.info import ConsumerInfo

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["drive", "spawn"]

T = TypeVar("T")


async def drive(
    workflow: Generator[Step, Any, T],
    request: Callable[[Request[Any]], Coroutine[Any, Any, Any]],
    act: Callable[[Step], Coroutine[Any, Any, None]] | None = None,
    forget: Callable[[Coroutine[Any, Any, Any]], None] | None = None,
) -> T:
    """Run a workflow to its end. A consumer that is made when nobody waits for it any more is deleted.

    Parameters
    ----------
    request
        Sends a request and reads its reply.
    act
        Does a step that is no request; None where there is none.
    forget
        Runs what nobody waits for; None where that is nothing.
    """
    answer: Any = None
    problem: Error | None = None
    try:
        while True:
            step = workflow.send(answer) if problem is None else workflow.throw(problem)
            answer = problem = None
            try:
                if isinstance(step, ConsumerCreateRequest):
                    answer = await _create(step, request, forget)
                elif isinstance(step, Request):
                    answer = await request(step)
                elif isinstance(step, Forget):
                    assert forget is not None, f"nobody to do {step}"
                    forget(request(step.request))
                else:
                    assert act is not None, f"nobody to do {step}"
                    await act(step)
            except Error as error:
                problem = error
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        problem = None  # its traceback holds this frame


def spawn(connection: Connection, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run what nobody waits for; its errors are nobody's business."""

    async def run() -> None:
        with suppress(Error):
            await coroutine

    connection._adopt(asyncio.create_task(run()))


async def _create(
    step: ConsumerCreateRequest,
    request: Callable[[Request[Any]], Coroutine[Any, Any, Any]],
    forget: Callable[[Coroutine[Any, Any, Any]], None] | None,
) -> ConsumerInfo:
    """Make a consumer. Who is cancelled meanwhile leaves the answer to a task, which deletes what was made.

    The answer tells whether it was this request that made it: one of the same name that another made is refused.
    """
    assert forget is not None, "nobody to wait for the answer"
    making: asyncio.Task[ConsumerInfo] = asyncio.create_task(request(step))

    async def undo() -> None:
        made = await making
        await request(ConsumerDeleteRequest(made.stream_name, made.name))

    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        forget(undo())
        raise
