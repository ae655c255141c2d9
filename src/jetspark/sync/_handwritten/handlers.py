"""The handlers of a consume in the blocking front: threads that run its callback, each with one message at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic

from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX

__all__ = ["HandlerThreads"]


class HandlerThreads:
    """The threads of one consume. They start at once.

    Parameters
    ----------
    name
        Name of the consume.
    runs
        One function for each thread.
    """

    def __init__(self, name: str, runs: Sequence[Callable[[], None]]) -> None:
        name = f"{CALLBACK_THREAD_PREFIX} of {name}"
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for run in runs]
        for thread in self._threads:
            thread.start()

    @property
    def in_handler(self) -> bool:
        """Whether this is one of the threads."""
        return threading.current_thread() in self._threads

    def join(self, timeout: float | None) -> None:
        """Wait at most `timeout` seconds for the end of all threads. Called in one of them, it returns at once."""
        if self.in_handler:
            return
        deadline = None if timeout is None else monotonic() + timeout
        for thread in self._threads:
            thread.join(None if deadline is None else max(deadline - monotonic(), 0.0))
