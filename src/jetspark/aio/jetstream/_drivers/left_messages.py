"""The messages that calls on a consumer's handle left, for a fetch of record batches, which runs in threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.aio.core import ConnectionCore
from jetspark.aio.futures import retrieve_error
from jetspark.aio.jetstream._drivers.carry_over import CarryOver, move_within_limits
from jetspark.aio.message import Msg
from jetspark.engine.pull import PullOptions
from jetspark.wire.frames import MsgFrame

if TYPE_CHECKING:
    from jetspark import bulk

__all__ = ["HandleMessages"]

Left = tuple[Sequence[MsgFrame], PullOptions | None]
"""Messages that earlier calls left, and the options of a pull for the rest; None if it needs none."""


class HandleMessages:
    """The messages that calls on a consumer's handle left, for a fetch of the same handle.

    Parameters
    ----------
    connection
        The connection of the handle.
    carry_over
        The messages.
    acks
        Whether the consumer takes acknowledgements.
    make_options
        Returns the options of the fetch.
    """

    def __init__(
        self, connection: ConnectionCore, carry_over: CarryOver, make_options: Callable[[], PullOptions], *, acks: bool
    ) -> None:
        self._connection = connection
        self._carry_over = carry_over
        self._make_options = make_options
        self._acks = acks
        self._prepared: Left | None = None

    async def prepare(self, reader: bulk.FetchReader) -> None:
        """Take messages for the next pull."""
        options = reader.remaining if reader.started else self._make_options()
        if options is not None:
            self._prepared = await self._collect(options)

    def restore(self) -> None:
        """Leave messages that `prepare` has taken and no pull has used."""
        if self._prepared is not None:
            messages, self._prepared = self._prepared[0], None
            self._put(messages)

    async def _collect(self, options: PullOptions) -> Left:
        await self._carry_over.wait_quiet(options.wait_limit)
        messages: deque[Msg] = deque()
        rest = move_within_limits(self._carry_over.messages, messages, options)
        return [MsgFrame(each.raw_subject, 0, each.raw_reply, each.raw_header, each.payload) for each in messages], rest

    # -- called in a thread; see `jetspark.bulk.pull_reading.LeftMessages` -----------------------------------------

    def take(self, options: PullOptions) -> Left:
        """Return the messages that `prepare` has taken. The blocking front takes them here."""
        if self._connection.call_from_thread is not None:
            left: Left = self._connection.call_from_thread(self._collect(options))
            return left
        prepared, self._prepared = self._prepared, None
        return ([], options) if prepared is None else prepared

    def put(self, messages: Sequence[MsgFrame]) -> bool:
        """Keep messages for the next call of the handle."""
        if self._connection.closed:
            return False
        try:
            self._connection.loop.call_soon_threadsafe(self._put, messages)
        except RuntimeError:  # the event loop has ended
            return False
        return True

    def _put(self, messages: Sequence[MsgFrame]) -> None:
        client = self._connection.client
        owner = client.connection if self._acks else None
        self._carry_over.put_back(
            [client.message_type(each.subject, each.reply, each.header, each.payload, owner) for each in messages]
        )

    # -- called on the event loop ----------------------------------------------------------------------------------

    def wait_for(self, given_back: asyncio.Task[None]) -> None:
        """Let other calls of the handle wait until the messages of a call were given back."""
        self._connection.tasks.track(given_back)
        self._carry_over.wait_for(given_back)

    def wait_for_thread(self, given_back: Future[None]) -> None:
        """As `wait_for`, for the work of a thread; may be called in any thread."""
        loop = self._connection.loop
        if _running_loop() is loop:
            self._wait_for_thread(given_back)
        else:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self._wait_for_thread, given_back)

    def _wait_for_thread(self, given_back: Future[None]) -> None:
        future = asyncio.wrap_future(given_back, loop=self._connection.loop)
        future.add_done_callback(retrieve_error)
        self._carry_over.wait_for(future)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
