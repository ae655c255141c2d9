"""Reports the messages of a consume as in progress, so that the server does not deliver them again (R26)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol

from jetspark.aio.core import ConnectionCore
from jetspark.aio.message import Msg
from jetspark.aio.weak_calls import weakly
from jetspark.engine.pull import InProgressTracker
from jetspark.jetstream.ack import IN_PROGRESS
from jetspark.jetstream.message import JetStreamMessage
from jetspark.wire.errors import BadSubjectError, FlushTimeoutError
from jetspark.wire.events import ErrorOccurred

__all__ = ["ProgressReports"]


class _Source(Protocol):
    ready: deque[Msg]
    ended: bool


class ProgressReports:
    """The reports of one consume. They end with its last message, with the connection, or with the last reference.

    Parameters
    ----------
    where
        Name of the consume, for its tasks.
    tracker
        Which messages are in progress.
    source
        Where the messages come from.
    """

    def __init__(self, connection: ConnectionCore, where: str, tracker: InProgressTracker, source: _Source) -> None:
        self._connection = connection
        self._where = where
        self._tracker = tracker
        self._source = source
        asyncio.get_running_loop().call_later(tracker.interval, weakly(self._start_task))

    def _start_task(self) -> None:
        """Report the messages in progress now, and again after the interval."""
        closed = self._source.ended and not self._source.ready
        if self._connection.closed or (closed and self._tracker.idle):
            return
        task = asyncio.create_task(self._send(), name=f"jetspark progress of {self._where}")
        self._connection.tasks.track(task)

    async def _send(self) -> None:
        """Report each message once, as fast as the transport accepts the reports.

        If the transport accepts no more, the rest is not queued: the messages in progress are determined again when
        there is room. So the queue does not grow, and no message is reported that was finished meanwhile.
        """
        connection, loop = self._connection, asyncio.get_running_loop()
        following = loop.time() + self._tracker.interval
        reported: set[JetStreamMessage] = set()
        complete = False
        while not complete and connection.connected:  # without a session, reports would be buffered and sent too late
            if connection.write_buffer_full:
                with suppress(FlushTimeoutError):
                    await connection.wait_writable()
                continue  # the session may be lost
            complete = True
            for message in self._tracker.messages_to_report(list(self._source.ready), reported):
                reported.add(message)
                try:
                    full = connection.send_reply(message.raw_reply, IN_PROGRESS)
                except BadSubjectError as error:
                    connection.emit(ErrorOccurred(error, subject=message.subject, subscription=self._where))
                    continue
                if full and not self._flush_completely():
                    complete = False
                    break
        loop.call_at(following, weakly(self._start_task))

    def _flush_completely(self) -> bool:
        """Send the queue; returns whether the transport took it."""
        self._connection.flush_now()
        return not self._connection.write_buffer_full
