"""Reading many messages by direct get (ADR-31): what to ask next, and what the replies mean.

One request brings a bounded batch, which ends with `204 EOB`; the next one goes on behind its last message, for the
last messages of subjects at the same moment as the first. Each message names the one before it, so one that is missing
is seen, and so is an end that does not fit to what came. Then, and when the answer stops, the reading goes on behind
the last message that came, once; without any progress it fails. A short result is never taken for a whole one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jetspark.jetstream.direct import DirectBatchRequest, DirectEnd, DirectMultiLastRequest
from jetspark.jetstream.errors import Error, InvalidReplyError
from jetspark.jetstream.stored import StoredMessage

__all__ = ["PAGE", "PAGE_BYTES", "DirectRead", "DirectReadRequest"]

DirectReadRequest = DirectBatchRequest | DirectMultiLastRequest

PAGE: Final = 1000
"""Most messages of one request."""
PAGE_BYTES: Final = 8 << 20
"""Most bytes of one request, unless it says otherwise."""


class DirectRead:
    """The messages of one read.

    Send `request`, hand each reply to `take`, and send `request` anew whenever it is another object; replies to former
    ones must not be handed over. It is None at the end.

    Parameters
    ----------
    request
        The first request; its `batch` is the most messages that one request may bring.
    limit
        Most messages in all; None for no limit.
    """

    def __init__(self, request: DirectReadRequest, limit: int | None = None) -> None:
        self.request: DirectReadRequest | None = request
        self._page = request.batch or PAGE
        self._left = limit
        self._before = 0  # sequence of the latest message of this request
        self._seen = 0  # sequence of the latest message
        self._progress = True
        self._go_on(request)

    def take(self, reply: StoredMessage | DirectEnd) -> StoredMessage | None:
        """Take a reply to the present request; returns the message that it is, if it is the next one.

        Raises
        ------
        InvalidReplyError
            Messages are missing, for the second time at the same place.
        """
        assert self.request is not None
        if isinstance(reply, DirectEnd):
            self._end(self.request, reply)
            return None
        if reply.last_sequence is not None and reply.last_sequence != self._before:
            self.interrupted(InvalidReplyError(f"{self._where}: a message behind {self._before} is missing"))
            return None
        self._before = self._seen = reply.sequence
        self._progress = True
        if self._left is not None:
            self._left -= 1
        if self._left == 0:
            self.request = None
        elif reply.last_sequence is None:  # an old server, which answers with one message whatever is asked for
            self._resume(InvalidReplyError(f"{self._where}: the server does not know this kind of direct get"))
        return reply

    def interrupted(self, error: Error) -> None:
        """No further replies to the present request come, or they are not whole: go on behind what came.

        Raises `error` when nothing came since the last time, or when reading cannot go on at the same moment.
        """
        if not self._progress:
            raise error
        self._progress = False
        self._resume(error)

    def repeat(self, error: Error) -> None:
        """Ask the present request again after `error`, behind what came; raises it when nothing came ever."""
        if not self._seen:
            raise error
        self._resume(error)

    @property
    def _where(self) -> str:
        assert self.request is not None
        return f"direct get from stream {self.request.stream!r}"

    def _end(self, request: DirectReadRequest, end: DirectEnd) -> None:
        if end.found and end.last_sequence != self._before:
            text = f"the batch ends behind {end.last_sequence}, and what came ends behind {self._before}"
            self.interrupted(InvalidReplyError(f"{self._where}: {text}"))
        elif not end.found and self._before:
            self.interrupted(InvalidReplyError(f"{self._where}: the batch was cut off behind {self._before}"))
        else:
            self._go_on(request.following(end))

    def _resume(self, error: Error) -> None:
        request = self.request
        assert request is not None
        if not self._seen:
            self._go_on(replace(request))
        elif isinstance(request, DirectBatchRequest):
            self._go_on(replace(request, seq=self._seen + 1, start_time=None))
        elif request.up_to_seq is not None:
            self._go_on(replace(request, seq=self._seen + 1))
        else:  # the first page says only at its end at which moment it was taken
            raise error

    def _go_on(self, request: DirectReadRequest | None) -> None:
        self._before = 0
        if request is not None:
            request = replace(request, batch=self._page if self._left is None else min(self._page, self._left))
        self.request = request
