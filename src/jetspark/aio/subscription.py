"""A subscription of the asyncio API: an iterator, a call for the next message, or a callback in a task of its own."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from jetspark.aio._interfaces import HasCore
from jetspark.aio.message import Msg
from jetspark.aio.subscription_core import Callback, SubscriptionCore
from jetspark.aio.subscription_info import SubscriptionInfo
from jetspark.wire.argument_types import check_timeout, checks_arguments

__all__ = ["Callback", "Subscription"]


@checks_arguments(unchecked=("next_msg",))
class Subscription(SubscriptionInfo, HasCore[SubscriptionCore]):
    """A subscription, created by `Connection.subscribe`.

        async for message in subscription:
            ...

    The iteration ends when the subscription does: after `unsubscribe`, `drain`, `max_msgs` or the connection's close.
    It raises if the server ended the subscription (REC-09). As a context manager it unsubscribes at the end. One
    without a callback that nobody holds ends, and gives a `ResourceWarning`.
    """

    def __init__(self, core: SubscriptionCore) -> None:
        super().__init__(core)
        self._sub = core.sub

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject!r}{', closed' if self.closed else ''}>"

    @property
    def sid(self) -> int:
        """Subscription id on the connection, never used twice."""
        return self._sub.sid

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed and not self._core.connection.closed:
            await self.unsubscribe()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Msg:
        return self._core.take() if self._sub.pending else await self._core.take_next()

    async def next_msg(self, timeout: float | None = None) -> Msg:  # noqa: ASYNC109 (the deadline is part of the call)
        """Return the next message, in the order of arrival.

        Parameters
        ----------
        timeout
            Seconds to wait; None means no limit, 0 takes only a message that is there.

        Raises
        ------
        NoMessageError
            No message came in time.
        SubscriptionClosedError, ConnectionClosedError, PermissionsViolationError
            No message will come any more.
        """
        if timeout is not None:
            check_timeout("next_msg", timeout)
        return await self._core.next_msg(timeout)

    async def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription.

        Parameters
        ----------
        max_msgs
            End after that many messages, counted from the start; 0 ends it now and drops the messages that wait.
        """
        await self._core.unsubscribe(max_msgs)

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """End the subscription without losing a message: messages that the server has sent can still be taken (R44).

        Without a callback, another part of the program must take them.

        Parameters
        ----------
        timeout
            Seconds until all must be taken; None takes the connection's `drain_timeout`.

        Raises
        ------
        DrainTimeoutError
            It took too long; the remaining messages were dropped.
        """
        await self._core.drain(timeout)
