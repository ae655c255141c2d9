"""The threads in which a connection's readers of record batches run blocking code.

They are not those of the event loop's default executor: there, DNS look-ups and the program's own calls would wait
for a read.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["MAX_READER_THREADS", "ReaderThreads"]

T = TypeVar("T")

MAX_READER_THREADS: Final = 8
"""Most threads of one connection. More calls at a time wait for each other."""

_NAME: Final = "jetspark reader"


class ReaderThreads:
    """The threads of one connection. The first call starts one; they end with the connection."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run a function in a thread."""
        if self._closed:  # a reader has a connection of its own, and may be read and closed later
            executor = ThreadPoolExecutor(1, _NAME)
            try:
                return executor.submit(work)
            finally:
                executor.shutdown(wait=False)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(MAX_READER_THREADS, _NAME)
        return self._executor.submit(work)

    def close(self) -> None:
        """End the threads after the calls that have begun or wait. Does not wait for that."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
