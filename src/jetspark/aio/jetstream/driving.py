"""Drives a workflow of `jetspark.flow.subscribing`: sends its requests, and lets somebody do the rest."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from jetspark.flow.subscribing import Forget, Step
from jetspark.jetstream.api import Request
from jetspark.jetstream.errors import Error

__all__ = ["drive"]

T = TypeVar("T")


async def drive(
    workflow: Generator[Step, Any, T],
    request: Callable[[Request[Any]], Coroutine[Any, Any, Any]],
    act: Callable[[Step], Coroutine[Any, Any, None]] | None = None,
    forget: Callable[[Coroutine[Any, Any, Any]], None] | None = None,
) -> T:
    """Run a workflow to its end.

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
                if isinstance(step, Request):
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
