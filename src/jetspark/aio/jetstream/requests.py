"""Requests that may be repeated, and requests with many answers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from jetspark.aio.core import ConnectionCore
from jetspark.aio.message import Msg
from jetspark.jetstream.errors import (
    DisconnectedError,
    Error,
    FlushTimeoutError,
    NoRespondersError,
    RequestTimeoutError,
)
from jetspark.wire.messages import Message
from jetspark.wire.reply_tokens import new_tokens

__all__ = ["ReplyStream", "request_with_retry"]

_MAX_ATTEMPTS: Final = 4
"""Most times that a request is sent within its timeout while no answer comes."""
_RETRY_DELAY: Final = 0.05
"""Seconds before a request is repeated after the loss of the session."""


async def request_with_retry(connection: ConnectionCore, subject: str, payload: bytes, timeout: float) -> Msg:  # noqa: ASYNC109
    """Send a request, also again after a while without an answer or after a session loss; return the first answer.

    After a session loss there may be no responder for a moment, until the other server is ready.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    asked: set[asyncio.Task[Msg]] = set()
    passing: tuple[type[Error], ...] = (DisconnectedError, RequestTimeoutError)
    try:
        while (left := deadline - loop.time()) > 0:
            asked.add(loop.create_task(connection.api_request(subject, payload, timeout=left)))
            until = min(loop.time() + timeout / _MAX_ATTEMPTS, deadline)
            while asked and (wait := until - loop.time()) > 0:
                done, asked = await asyncio.wait(asked, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                problems = {task: task.exception() for task in done}
                if any(isinstance(problem, DisconnectedError) for problem in problems.values()):
                    passing = (*passing, NoRespondersError)
                answers = [task for task, problem in problems.items() if not isinstance(problem, passing)]
                if answers:
                    return answers[0].result()
            if not asked and (left := deadline - loop.time()) > 0:
                await _wait_for_session(connection, left)
    finally:
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked)
    raise RequestTimeoutError(f"no answer on {subject!r} within {timeout:g} s")


async def _wait_for_session(connection: ConnectionCore, timeout: float) -> None:  # noqa: ASYNC109
    await asyncio.sleep(min(_RETRY_DELAY, timeout))
    connection.check_reachable()
    try:
        await connection.ping_roundtrip(timeout)
    except (FlushTimeoutError, DisconnectedError):
        return  # the caller looks at the time


class ReplyStream:
    """The answers to one request at a time, on an inbox of its own. Answers to earlier requests are ignored."""

    def __init__(self, connection: ConnectionCore) -> None:
        self._connection = connection
        self._client = connection.client
        self._inbox = connection.new_inbox()
        self._subject = ""
        self._next_token = new_tokens()
        self._reply = b""
        self._frame = b""
        self._messages: deque[Message] = deque()
        self._error: Error | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sub = self._client.subscribe(f"{self._inbox}.*")
        self._sub.handler = self._deliver
        self._sub.wake = self._on_subscription_ended
        self._sub.waiting = True
        self._client.reply_listeners.add(self)

    def request(self, subject: str, payload: bytes) -> None:
        """Send a request; answers to the previous one are dropped."""
        outbound = self._client.outbound
        outbound.withdraw((self._frame,))
        self._subject, self._reply = subject, f"{self._inbox}.".encode() + self._next_token()
        self._messages.clear()
        self._error = self._sub.error
        self._frame = outbound.encode(subject, payload, self._reply, None)
        outbound.queue_publish(self._frame)
        self._connection.flush_now()

    async def next(self, timeout: float) -> Message:  # noqa: ASYNC109
        """Return the next answer.

        Raises
        ------
        RequestTimeoutError
            No answer came within `timeout` seconds.
        DisconnectedError, ConnectionClosedError, PermissionsViolationError
            No answer can come any more.
        """
        while not self._messages:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._waiter
            except TimeoutError:
                self._connection.server_check.suspect()
                raise RequestTimeoutError(f"no answer on {self._subject!r} within {timeout:g} s") from None
            finally:
                self._waiter = None
        return self._messages.popleft()

    @property
    def available(self) -> int:
        """Number of answers that can be taken without waiting."""
        return len(self._messages)

    def close(self) -> None:
        """Unsubscribe from the inbox."""
        self._sub.wake = self._sub.handler = None
        self._client.reply_listeners.discard(self)
        if not self._client.closed:
            self._client.outbound.withdraw((self._frame,))
            self._client.unsubscribe(self._sub)
            self._connection.flush_soon()

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle that no answer can come any more; see `jetspark.wire.connection_state.ReplyListener`."""
        if subject is None or subject == self._subject:
            self._error = error
            self._wake()

    def _deliver(self, message: Message) -> None:
        if message.raw_subject == self._reply:
            self._messages.append(message)
            self._wake()
        else:
            self._client.reply_mux.unmatched_replies += 1

    def _on_subscription_ended(self) -> None:
        if self._sub.error is not None:
            self.fail(self._sub.error)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
