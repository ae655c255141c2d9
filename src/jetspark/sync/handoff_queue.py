"""Hands items from the event loop to other threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["HandoffQueue"]

T = TypeVar("T")


class HandoffQueue(Generic[T]):
    """The side of a deque that threads take from; the event loop appends to it.

    Before a thread sleeps, it requests to be woken and then looks at the deque again. The loop appends and then looks
    whether somebody wants to be woken. So one of the two always notices the other.

    Parameters
    ----------
    items
        The deque.
    is_ended
        Returns whether nothing more will come.
    request_wake
        Lets the loop call `wake` when it has appended, or at the end.
    """

    def __init__(self, items: deque[T], is_ended: Callable[[], bool], request_wake: Callable[[], None]) -> None:
        self._items = items
        self._popleft = items.popleft
        self._is_ended = is_ended
        self._request_wake = request_wake
        self._changed = threading.Condition()

    def take(self, timeout: float | None = None) -> T | None:
        """Take the next item, after waiting for it; return None after the last one. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = self._is_ended()  # read before the deque: items from before the end are taken first
            try:
                return self._popleft()
            except IndexError:  # also if another thread took it, or if the loop discards the items now
                pass
            if ended:
                return None
            with self._changed:
                self._request_wake()
                if self._items or self._is_ended():
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._changed.wait(left)

    def wake(self) -> None:
        """Wake the threads that wait."""
        with self._changed:
            self._changed.notify_all()
