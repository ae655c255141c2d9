"""When an ordered reader has caught up: it has received all messages that its stream had.

`OrderedEngine` has one of these rules. It passes on what it learns, and the rule returns the actions that follow. A
`CaughtUp` action comes at most once.

`LeaderCatchUp` is the rule of ordered consumers. That of a watch is in `jetspark.engine.watch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from jetspark.engine.ordered_actions import CaughtUp, GetConsumerInfo, GetLastSequence, Warn
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.jetstream.errors import DisconnectedError, Error, PermissionsViolationError
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.messages import Message

__all__ = ["CatchUp", "CatchUpAction", "LeaderCatchUp"]

CatchUpAction: TypeAlias = CaughtUp | GetConsumerInfo | GetLastSequence | Warn

_MAX_UNANSWERED_REQUESTS: Final = 3
"""Number of unanswered requests to the stream's leader after which the consumer's own state is used."""


class CatchUp:
    """A rule that is never met: nobody wants to know.

    Attributes
    ----------
    done
        Whether the reader has caught up; nothing is asked or reported then.
    """

    def __init__(self) -> None:
        self.done = False

    def began(self) -> list[CatchUpAction]:
        """Handle that the messages of another consumer are accepted from now on."""
        return []

    def accepted(self, messages: Sequence[Message], last_pending: int) -> list[CatchUpAction]:  # noqa: ARG002
        """Handle messages that are good; `last_pending` is the pending number of the last one."""
        return []

    def silent(self) -> list[CatchUpAction]:
        """Handle a heartbeat: the server has nothing to send."""
        return []

    def info_received(self, info: ConsumerInfo) -> list[CatchUpAction]:  # noqa: ARG002
        """Handle the info of the current consumer."""
        return []

    def last_sequence_received(self, last: int) -> list[CatchUpAction]:  # noqa: ARG002
        """Handle the leader's answer: the last sequence of the subjects that are read; 0 for none."""
        return []

    def last_sequence_failed(self, error: Error) -> list[CatchUpAction]:  # noqa: ARG002
        """Handle a failed request to the leader."""
        return []

    def restarted(self) -> None:
        """Handle that the stream was created again, and is read from its beginning."""

    def finish(self, position: int = 0) -> list[CatchUpAction]:
        """Return the report that the reader has caught up."""
        self.done = True
        return [CaughtUp(position)]


class LeaderCatchUp(CatchUp):
    """Nothing pending, and no later message on the leader, which is asked: the consumer may be on a late replica.

    Parameters
    ----------
    cursor
        The position of the reader.
    """

    def __init__(self, cursor: OrderedCursor) -> None:
        super().__init__()
        self._cursor = cursor
        self._last: int | None = None  # last sequence that the leader reported
        self._awaiting = False  # a request to the leader waits for its answer
        self._unanswered = 0  # consecutive requests to the leader without an answer

    def began(self) -> list[CatchUpAction]:
        """Ask the leader if nothing is pending."""
        return [] if self._cursor.pending else self._request()

    def accepted(self, messages: Sequence[Message], last_pending: int) -> list[CatchUpAction]:  # noqa: ARG002
        """Compare the position with the leader's last message; ask for it if nothing is pending."""
        if self._last is not None:
            return self._check()
        if last_pending:
            return []
        # The pending number in a delivery may be out of date.
        if self._cursor.delivered >= self._cursor.pending:
            return self._request()
        return [GetConsumerInfo(self._cursor.name)]

    def silent(self) -> list[CatchUpAction]:
        """Ask whether anything is pending."""
        return [GetConsumerInfo(self._cursor.name)]

    def info_received(self, info: ConsumerInfo) -> list[CatchUpAction]:
        """Ask the leader if nothing is pending and all deliveries have come."""
        if info.num_pending:
            return []
        complete = info.delivered.consumer_sequence <= self._cursor.delivered
        self._cursor.pending = 0
        return self._request() if complete else []

    def last_sequence_received(self, last: int) -> list[CatchUpAction]:
        """Compare the position with the leader's last message."""
        self._last = last
        self._awaiting = False
        self._unanswered = 0
        return self._check()

    def last_sequence_failed(self, error: Error) -> list[CatchUpAction]:
        """Ask again at the next heartbeat; after a few failures, trust the consumer."""
        self._awaiting = False
        self._unanswered += not isinstance(error, DisconnectedError)
        if self._unanswered >= _MAX_UNANSWERED_REQUESTS or isinstance(error, PermissionsViolationError):
            return [Warn(error), *self.finish()]
        return []

    def restarted(self) -> None:
        """Forget the leader's answer about the former stream."""
        self._last = None

    def _request(self) -> list[CatchUpAction]:
        if self._awaiting:
            return []
        self._awaiting = True
        return [GetLastSequence(self._cursor.subjects)]

    def _check(self) -> list[CatchUpAction]:
        place = self._cursor.last_sequence
        reached = self._cursor.start if place is None else place
        return self.finish() if self._last is not None and self._last <= reached else []
