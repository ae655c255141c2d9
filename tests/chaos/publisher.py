"""Publishes the numbers 1 to N to every stream, each exactly once, whatever happens to the servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from jetspark import bulk
from jetspark.errors import Error

__all__ = ["Publisher"]

PIECE = 500
GIVE_UP = 120.0  # the duplicate window of the streams: a chunk that is sent again later might be stored twice


class Publisher:
    """A thread that publishes up to a number that others raise (`allow`).

    Each message has its number as message id, so a chunk that may have been stored in part is sent again as a whole.
    """

    def __init__(self, servers: Sequence[str], subjects: Sequence[str], numbers: int) -> None:
        self._servers = list(servers)
        self._subjects = list(subjects)
        self._numbers = numbers
        self._allowed = 0
        self._condition = threading.Condition()
        self.paused = threading.Lock()
        """Whoever holds it lets the publisher wait before its next chunk; nothing of it is under way then."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None
        self.done = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def allow(self, numbers: int) -> None:
        """Publish up to this number from now on."""
        with self._condition:
            self._allowed = min(max(numbers, self._allowed), self._numbers)
            self._condition.notify()

    def finish(self, timeout: float) -> None:
        """Publish the rest, and wait for it. Raise the error of the thread."""
        self.allow(self._numbers)
        self._thread.join(timeout)
        if self.failure is not None:
            raise self.failure
        if self._thread.is_alive():
            raise TimeoutError(f"{self.done} of {self._numbers} numbers are published after {timeout:g} s")

    def _run(self) -> None:
        connection: bulk.Connection | None = None
        try:
            while self.done < self._numbers:
                with self._condition:
                    self._condition.wait_for(lambda: self._allowed > self.done)
                    numbers = range(self.done + 1, min(self.done + PIECE, self._allowed) + 1)
                with self.paused:
                    connection = self._publish(connection, numbers)
                    self.done = numbers[-1]
        except BaseException as error:  # noqa: BLE001 - for `finish`
            self.failure = error
        finally:
            if connection is not None:
                connection.close()

    def _publish(self, connection: bulk.Connection | None, numbers: range) -> bulk.Connection:
        rows = [(subject, number) for number in numbers for subject in self._subjects]
        batch = pa.record_batch(
            {
                "subject": [f"{subject}.{number % 10}" for subject, number in rows],
                "data": [b"%d" % number for _, number in rows],
                "msg_id": [str(number) for _, number in rows],
            }
        )
        deadline = time.monotonic() + GIVE_UP
        while True:
            try:
                if connection is None or connection.closed:
                    connection = bulk.connect(self._servers)
                bulk.publish(connection, batch)
            except Error:
                if time.monotonic() > deadline:
                    raise
                if connection is not None:
                    connection.close()
                time.sleep(0.1)  # the server is away
            else:
                return connection
