"""The tasks of a connection: those that end with it, and those that report errors to the program."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["ConnectionTasks"]


class ConnectionTasks:
    """The tasks of one connection."""

    def __init__(self) -> None:
        self._tracked: set[asyncio.Task[None]] = set()
        self._handlers: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[Any] | None] = set()  # those that close the connection now

    def track(self, task: asyncio.Task[None]) -> None:
        """Register a task that must end with the connection."""
        self._tracked.add(task)
        task.add_done_callback(self._tracked.discard)

    def track_handler(self, task: asyncio.Task[None]) -> None:
        """Register a task that reports an error to the program. A close waits for it."""
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel the tasks that must end with the connection, but not the present one; return them."""
        caller = asyncio.current_task()
        others = [task for task in self._tracked if task is not caller]
        for task in others:
            task.cancel()
        return others

    def begin_close(self) -> None:
        """Note that the present task closes the connection."""
        self._closing.add(asyncio.current_task())

    def end_close(self) -> bool:
        """Note that the present task has finished its close; return whether no other one still closes."""
        self._closing.discard(asyncio.current_task())
        return not self._closing

    async def wait_handlers(self, timeout: float) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until all errors were reported to the program; then cancel handlers that still run."""
        # A handler that closes the connection does not wait for itself, nor for another one that does so.
        if tasks := self._handlers - self._closing:
            _, stuck = await asyncio.wait(tasks, timeout=timeout)
            for task in stuck:
                task.cancel()
