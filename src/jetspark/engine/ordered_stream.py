"""Whether the stream of an ordered reader is still the one that it reads.

A stream that was deleted and created again has the same name, and its sequences begin again. A reader that continued at
its old sequence would skip the first messages. The creation time is the identity of a stream. The answer to the
creation of a consumer does not have it, so the stream's info is requested after that: then the consumer belongs to
this stream or to an earlier one.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto
from typing import Final, Literal

from jetspark.jetstream.errors import (
    ConfigError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    NoRespondersError,
    PermissionsViolationError,
    StreamUncheckedError,
)
from jetspark.jetstream.info import ConsumerInfo, StreamInfo

__all__ = ["OnStreamRecreated", "StreamCheck", "StreamMatch", "restarts"]

OnStreamRecreated = Literal["error", "restart"]
"""Reaction of an ordered reader to a stream that was created again."""

_MAX_TRIES: Final = 3
"""Answers that lack messages which were read, or requests without an answer, until the reader stops asking again."""


class StreamMatch(Enum):
    """Result of a comparison."""

    SAME = auto()
    """It is the stream that is read, or none of its messages can be skipped."""
    BEHIND = auto()
    """It lacks messages that were read; ask again, as a new leader may not have them yet."""
    RECREATED = auto()
    """It is another stream, or an older state of the stream was restored."""


def restarts(choice: OnStreamRecreated) -> bool:
    """Return whether the reader starts again. Raises ConfigError if the choice is neither `error` nor `restart`."""
    if choice not in {"error", "restart"}:
        raise ConfigError(f"on_stream_recreated must be 'error' or 'restart', not {choice!r}")
    return choice == "restart"


class StreamCheck:
    """The facts that an ordered reader knows about its stream.

    Attributes
    ----------
    created
        When the stream was created; None if its info has not come yet.
    """

    def __init__(self) -> None:
        self.created: datetime | None = None
        self._enabled = True
        self._name = ""
        self._first_consumer: datetime | None = None
        self._behind = self._unanswered = 0
        self._reported = False

    @property
    def required(self) -> bool:
        """Whether the next consumer must not be read before the stream is compared."""
        return self._enabled and self.begun

    @property
    def unknown(self) -> bool:
        """Whether the stream's info is to be requested while the first consumer is read."""
        return self._enabled and self.created is None

    @property
    def begun(self) -> bool:
        """Whether a consumer was read."""
        return self._first_consumer is not None

    def consumer_created(self, info: ConsumerInfo) -> None:
        """Note a consumer that is read."""
        if not self.begun:
            self._name, self._first_consumer = info.stream_name, info.created

    def begin(self, stream: StreamInfo) -> None:
        """Note the stream that is read from now on."""
        self.created = stream.created
        self._behind = self._unanswered = 0

    def begin_first(self, stream: StreamInfo) -> None:
        """Note the stream of the first consumer, unless it is younger: then the next comparison finds it."""
        if not self._is_another(stream.created):
            self.begin(stream)

    def compare(self, stream: StreamInfo, start: int, last_sequence: int) -> StreamMatch:
        """Compare the stream with the one that is read.

        Parameters
        ----------
        start
            Sequence after which the next consumer starts, 0 for the beginning: then nothing can be skipped.
        last_sequence
            Sequence of the last message that was read, 0 for none.
        """
        if start and self._is_another(stream.created):
            return StreamMatch.RECREATED
        if stream.state.last_sequence < last_sequence:
            self._behind += 1
            return StreamMatch.RECREATED if self._behind >= _MAX_TRIES else StreamMatch.BEHIND
        self.begin(stream)
        return StreamMatch.SAME

    def _is_another(self, created: datetime) -> bool:
        if self.created is not None:
            return created != self.created
        # The first info did not come: a stream that is younger than the first consumer is another one.
        return self._first_consumer is not None and created > self._first_consumer

    def failed(self, error: Error) -> bool:
        """Handle a request without an answer; return whether to read without the comparison."""
        if isinstance(error, PermissionsViolationError):
            self._enabled = False
            return True
        if isinstance(error, NoRespondersError | JetStreamNotEnabledError):  # an account may import other requests only
            return not getattr(error, "err_code", 0)
        self._unanswered += error.outcome_unknown and not isinstance(error, DisconnectedError)
        return self._unanswered >= _MAX_TRIES

    def unchecked(self, error: Error) -> StreamUncheckedError | None:
        """Return the error to report if the reader reads without the comparison; None from the second time on."""
        if self._reported:
            return None
        self._reported = True
        problem = StreamUncheckedError(
            f"stream {self._name!r}: the ordered reader cannot see whether the stream was deleted and created again "
            f"({error}); it reads on. Allow the request $JS.API.STREAM.INFO.{self._name}",
            stream=self._name,
        )
        problem.__cause__ = error
        return problem
