"""Read many messages by direct get (ADR-31): which request is next, and how to handle the replies.

One request returns a limited batch, which ends with `204 EOB`. The next request continues after its last message; for
last messages of subjects, it reads the state of the stream that the first request read. Each message names the one
before it, so a missing message is detected; so is an end that does not match the received messages. After that, or if
the replies stop, the read continues after the last received message. If this brings no progress, the read fails. An
incomplete result is never returned as complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jetspark.jetstream.direct_get import DirectBatchEnd, DirectBatchRequest, DirectMultiLastRequest
from jetspark.jetstream.errors import Error, InvalidReplyError
from jetspark.jetstream.names import subject_matches
from jetspark.jetstream.stored_message import StoredMessage

__all__ = ["DIRECT_BATCH", "DIRECT_BATCH_BYTES", "DirectRead", "DirectReadRequest"]

DirectReadRequest = DirectBatchRequest | DirectMultiLastRequest

DIRECT_BATCH: Final = 1000
"""Maximum number of messages of one request."""
DIRECT_BATCH_BYTES: Final = 8 << 20
"""Default maximum of bytes of one request."""


class DirectRead:
    """State of one read.

    Send `request`, pass each reply to `handle_reply`, and send `request` again whenever it is another object. Do not
    pass replies to former requests. `request` is None at the end.

    Parameters
    ----------
    request
        The first request; its `batch` is the maximum number of messages of each request.
    limit
        Maximum number of messages in total; None for no limit.
    """

    def __init__(self, request: DirectReadRequest, limit: int | None = None) -> None:
        self.request: DirectReadRequest | None = request
        self._subjects = frozenset(request.subjects if isinstance(request, DirectMultiLastRequest) else ())
        self._page = request.batch or DIRECT_BATCH
        self._left = limit
        self._last_in_request = 0  # sequence of the latest message of this request
        self._last_sequence = 0  # sequence of the latest message
        self._progress = True
        self._go_on(request)

    def handle_reply(self, reply: StoredMessage | DirectBatchEnd) -> StoredMessage | None:
        """Handle a reply to the current request; return it if it is the next message, else None.

        Raises
        ------
        InvalidReplyError
            Messages are missing for the second time at the same position; or the reply is a message that was not asked
            for, or one from before.
        """
        assert self.request is not None
        if isinstance(reply, DirectBatchEnd):
            self._end(self.request, reply)
            return None
        if reply.last_sequence is not None and reply.last_sequence != self._last_in_request:
            error = InvalidReplyError(f"{self._where}: a message after sequence {self._last_in_request} is missing")
            self.interrupted(error)
            return None
        if reply.sequence <= self._last_sequence or reply.sequence < (self.request.sequence or 1):
            raise InvalidReplyError(
                f"{self._where}: sequence {reply.sequence} came after {self._last_sequence}, in a read from "
                f"{self.request.sequence or 1} on"
            )
        if not self._is_wanted(reply.subject):
            raise InvalidReplyError(f"{self._where}: subject {reply.subject[:200]!r} was not asked for")
        self._last_in_request = self._last_sequence = reply.sequence
        self._progress = True
        if self._left is not None:
            self._left -= 1
        if self._left == 0:
            self.request = None
        elif reply.last_sequence is None:  # an old server, which answers every request with one message
            self._resume(
                InvalidReplyError(f"{self._where}: the server does not support batched direct gets; use 2.11 or newer")
            )
        return reply

    def interrupted(self, error: Error) -> None:
        """Continue after the last received message, as replies to the current request stopped or are incomplete.

        Raises `error` if no message came since the last interruption, or if the read cannot continue with the same
        state of the stream.
        """
        if not self._progress:
            raise error
        self._progress = False
        self._resume(error)

    def retry(self, error: Error) -> None:
        """Continue after the last received message because of `error`; raise it if no message was received yet."""
        if not self._last_sequence:
            raise error
        self._resume(error)

    def _is_wanted(self, subject: str) -> bool:
        request = self.request
        if isinstance(request, DirectMultiLastRequest):
            return subject in self._subjects or any(subject_matches(each, subject) for each in request.subjects)
        assert request is not None
        return request.next_by_subject is None or subject_matches(request.next_by_subject, subject)

    @property
    def _where(self) -> str:
        assert self.request is not None
        return f"direct get from stream {self.request.stream!r}"

    def _end(self, request: DirectReadRequest, end: DirectBatchEnd) -> None:
        if end.found and end.last_sequence != self._last_in_request:
            text = f"the batch ends at sequence {end.last_sequence}, but the last message is {self._last_in_request}"
            self.interrupted(InvalidReplyError(f"{self._where}: {text}"))
        elif not end.found and self._last_in_request:
            text = f"the batch was cut off after sequence {self._last_in_request}"
            self.interrupted(InvalidReplyError(f"{self._where}: {text}"))
        else:
            self._go_on(request.next_request(end))

    def _resume(self, error: Error) -> None:
        request = self.request
        assert request is not None
        if not self._last_sequence:
            self._go_on(replace(request))
        elif isinstance(request, DirectBatchRequest):
            self._go_on(replace(request, sequence=self._last_sequence + 1, start_time=None))
        elif request.up_to_sequence is not None:
            self._go_on(replace(request, sequence=self._last_sequence + 1))
        else:  # only the end of the first page says which state of the stream it read
            raise error

    def _go_on(self, request: DirectReadRequest | None) -> None:
        self._last_in_request = 0
        if request is not None:
            request = replace(request, batch=self._page if self._left is None else min(self._page, self._left))
        self.request = request
