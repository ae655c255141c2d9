"""Drives a workflow of `jetspark.engine.subscribe`: sends its requests, and passes other steps to callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

from jetspark.aio.core import ConnectionCore
from jetspark.engine.subscribe import Step
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, Request
from jetspark.jetstream.errors import Error
from jetspark.jetstream.info import ConsumerInfo

__all__ = ["run_in_background", "run_workflow"]

T = TypeVar("T")


async def run_workflow(
    workflow: Generator[Step, Any, T],
    request: Callable[[Request[Any]], Coroutine[Any, Any, Any]],
    perform_step: Callable[[Step], Coroutine[Any, Any, None]] | None = None,
    run_in_background: Callable[[Coroutine[Any, Any, Any]], None] | None = None,
) -> T:
    """Run a workflow to its end. A consumer that is created after the caller was cancelled is deleted.

    Parameters
    ----------
    request
        Sends a request and returns its reply.
    perform_step
        Performs a step that is no request; None if there are no such steps.
    run_in_background
        Runs a coroutine without waiting for it; None if there are no such coroutines.
    """
    answer: Any = None
    problem: Error | None = None
    try:
        while True:
            step = workflow.send(answer) if problem is None else workflow.throw(problem)
            answer = problem = None
            try:
                if isinstance(step, ConsumerCreateRequest):
                    answer = await _create(step, request, run_in_background)
                elif isinstance(step, Request):
                    answer = await request(step)
                else:
                    assert perform_step is not None, f"nobody to do {step}"
                    await perform_step(step)
            except Error as error:
                problem = error
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        problem = None  # its traceback holds this frame


def run_in_background(connection: ConnectionCore, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine without waiting for it; its errors are ignored."""

    async def run() -> None:
        with suppress(Error):
            await coroutine

    connection.tasks.track(asyncio.create_task(run(), name="jetspark background"))


async def _create(
    step: ConsumerCreateRequest,
    request: Callable[[Request[Any]], Coroutine[Any, Any, Any]],
    run_in_background: Callable[[Coroutine[Any, Any, Any]], None] | None,
) -> ConsumerInfo:
    """Create a consumer. If the caller is cancelled meanwhile, a task waits for the answer and deletes the consumer.

    The answer says whether this request created it: the server refuses a name that somebody else has used.
    """
    assert run_in_background is not None, "nobody to wait for the answer"
    making: asyncio.Task[ConsumerInfo] = asyncio.create_task(request(step))

    async def undo() -> None:
        made = await making
        await request(ConsumerDeleteRequest(made.stream_name, made.name))

    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        run_in_background(undo())
        raise
