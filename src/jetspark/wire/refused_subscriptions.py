"""Finds the subscriptions that a server refuses for good, and ends them. Mostly the server does not name them.

A subscription that stayed would be restored in every session: with a control line that is too long, the server closes
each of them; over the maximum of subscriptions, it gets no message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jetspark.wire.errors import Error, MaxControlLineError, MaxSubscriptionsError
from jetspark.wire.events import ErrorOccurred, Event
from jetspark.wire.frames import PING
from jetspark.wire.line_limits import MAX_QUOTED, SHORT_LINE, line_too_long
from jetspark.wire.outbound import Outbound
from jetspark.wire.pings import PingTracker
from jetspark.wire.subscriptions import SubscriptionState, SubscriptionTable

__all__ = ["RefusedSubscriptions"]

_QUEUE_IN_ERROR: Final = re.compile(r'using queue "([^"]*)"', re.IGNORECASE)


class RefusedSubscriptions:
    """The subscriptions of one connection; see the module.

    Parameters
    ----------
    emit
        Reports an event.
    """

    def __init__(
        self,
        subscriptions: SubscriptionTable,
        outbound: Outbound,
        pings: PingTracker,
        emit: Callable[[Event], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._outbound = outbound
        self._pings = pings
        self.emit = emit
        self._too_many = 0  # refusals since the last answered PING
        self._last_sid = 0  # of the subscriptions sent before that PING

    def end_unfit(self) -> None:
        """End the subscriptions whose lines are too long for the next server."""
        for sub in self._subscriptions:
            if len(sub.line) > self._outbound.max_control_line:
                self._end(sub, line_too_long(sub.line, self._outbound.max_control_line))

    def on_forbidden(self, error: Error, subject: str, text: str) -> None:
        """End the subscriptions that a permissions violation names (REC-09); `text` is that of the server."""
        queue = _QUEUE_IN_ERROR.search(text)
        for sub in self._subscriptions.find(subject.encode(), queue[1].encode() if queue else b""):
            self._subscriptions.remove(sub, error)

    def on_line_too_long(self, where: str) -> MaxControlLineError | None:
        """Return the error for the longest line of this session, and end the subscription if it is one.

        The server does not say which line was too long, nor its limit. If one was, then certainly the longest.
        Returns None if all lines were short.
        """
        sub = max(self._subscriptions, key=lambda each: len(each.line), default=None)
        size, line = self._outbound.longest_line
        if sub is not None and len(sub.line) >= size:
            size, line = len(sub.line), sub.line[:MAX_QUOTED]
        else:
            sub = None
        if size <= SHORT_LINE:
            return None
        self._outbound.max_control_line = min(self._outbound.max_control_line, size - 1)
        owner = "message on" if sub is None else "subscription to"
        found = MaxControlLineError(
            f"{where}: the server says that a control line is too long; the longest one has {size} bytes and belongs "
            f"to the {owner} {line.decode('utf-8', 'backslashreplace')!r}...; "
            "use shorter subjects, or raise max_control_line of the server",
            size=size,
            limit=size - 1,
        )
        if sub is not None:
            self._subscriptions.remove(sub, found)
        return found

    def on_too_many(self, error: Error) -> None:
        """Count a refusal. A PING shows how many there are: then the latest subscriptions are those refused."""
        self._too_many += 1
        if self._too_many > 1:
            return

        def end(lost: Error | None) -> None:
            count, self._too_many = self._too_many, 0
            if lost is None:
                sent = [sub for sub in self._subscriptions if sub.sid <= self._last_sid and not sub.draining]
                for sub in sent[-count:]:
                    self._end(sub, MaxSubscriptionsError(f"subscription to {_subject(sub)}: {error}"))

        self._last_sid = max((sub.sid for sub in self._subscriptions), default=0)
        self._outbound.queue_command(PING)
        self._pings.add_ping(self._outbound.publish_count, end)

    def _end(self, sub: SubscriptionState, error: Error) -> None:
        self._subscriptions.remove(sub, error)
        self.emit(ErrorOccurred(error))


def _subject(sub: SubscriptionState) -> str:
    return repr(sub.subject[:MAX_QUOTED].decode(errors="replace"))
