"""An atomic batch from its first message to its commit (ADR-50). No I/O.

    1           request        empty answer: the server has opened the batch; anything else is an error
    2, 3, ...   publish        no answer, or an empty one if the message has a reply subject
    n           request        commit `1` also stores this message, `eob` only those before it; one answer for all

At the commit, the server checks conditions on the stream (expected sequences, duplicates). Then it stores all messages
or none. A batch that is never committed, or that lost a message, stores nothing (BAT-04).
"""

from __future__ import annotations

import enum
import secrets
from typing import Literal

from jetspark.jetstream.errors import BatchClosedError, ConfigError, Error, InvalidAckError, StatusError
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import PublishFields, batch_headers, check_commit, publish_headers, read_pub_ack
from jetspark.wire.headers import Headers, HeadersLike
from jetspark.wire.messages import Message

__all__ = ["AtomicBatch", "BatchState"]


class BatchState(enum.Enum):
    """State of a batch."""

    OPEN = "open"
    COMMITTED = "committed"
    DISCARDED = "discarded"
    FAILED = "failed"


class AtomicBatch:
    """One batch. Call `next_headers` for each message first, then `sent` when the message was really sent.

    Parameters
    ----------
    batch_id
        Up to 64 characters; a new random id by default.

    Attributes
    ----------
    id
        Id of the batch.
    count
        Number of messages sent so far.
    state
        State; the batch accepts messages only while it is open (BAT-10).
    expected_stream
        The stream that its messages name, if they name one: only its answers count.
    """

    def __init__(self, batch_id: str | None = None) -> None:
        self.id = secrets.token_hex(11) if batch_id is None else batch_id
        self.count = 0
        self.state = BatchState.OPEN
        self.expected_stream: str | None = None
        self._subject = ""
        self._failure: Error | None = None
        batch_headers(self.id, 1)  # refuses an id that is too long

    @property
    def is_open(self) -> bool:
        """Whether the batch accepts messages."""
        return self.state is BatchState.OPEN

    @property
    def next_needs_reply(self) -> bool:
        """Whether the next message opens the batch, so that the caller must await its answer (BAT-01)."""
        return self.count == 0

    def next_headers(
        self, headers: HeadersLike | None, fields: PublishFields, commit: Literal["1"] | None = None
    ) -> HeadersLike:
        """Return the headers of the next message; the caller's headers are not changed.

        Raises
        ------
        BatchClosedError
            The batch is committed, discarded or has failed.
        ConfigError
            The 1001st message (BAT-06), or a field that the server does not allow in a batch (BAT-07).
        """
        self.check_open()
        if self.count and fields.get("expected_last_sequence") is not None:
            raise ConfigError("expected_last_sequence is allowed only in the first message of an atomic batch")
        if fields.get("expected_last_msg_id") is not None:
            raise ConfigError("expected_last_msg_id is not allowed in an atomic batch")
        self.expected_stream = fields.get("expected_stream") or self.expected_stream
        ours = batch_headers(self.id, self.count + 1, commit)
        if headers is None and not fields:
            return ours
        merged = Headers(publish_headers(headers, fields) or ())
        for key, value in ours:
            merged[key] = value
        return merged

    def sent(self, subject: str) -> None:
        """Count the message whose headers were returned last; it was sent."""
        self.count += 1
        self._subject = subject

    def eob_message(self) -> tuple[str, HeadersLike]:
        """Return subject and headers of the message that commits and is not stored (`eob`); it is not counted.

        Raises
        ------
        BatchClosedError
            The batch is committed, discarded or has failed.
        ConfigError
            The batch has no messages; the server cannot commit an empty batch.
        """
        self.check_open()
        if not self.count:
            raise ConfigError("an atomic batch without messages cannot be committed; add a message, or discard it")
        return self._subject, batch_headers(self.id, self.count + 1, "eob")

    def discard(self) -> tuple[str, HeadersLike] | None:
        """Discard the batch; return a message that makes the server drop it at once, None if it is not needed.

        The message is an `eob` with sequence 1. A batch cannot end at its first message, so the server drops it.
        Otherwise the server keeps the batch for ten seconds, as one of the 50 that a stream may have open (BAT-09).
        """
        if not self.is_open:
            return None
        self.state = BatchState.DISCARDED
        return (self._subject, batch_headers(self.id, 1, "eob")) if self.count else None

    def check_reply(self, answer: Message) -> None:
        """Read the answer to a message that does not commit. Raises the error if the server refused it (BAT-05)."""
        if answer.payload or answer.raw_header:
            self._read(answer)
            raise self.fail(
                InvalidAckError(
                    f"{self._subject}: unexpected reply to a message of an atomic batch: {answer.payload[:200]!r}"
                )
            )

    def read_commit_ack(self, answer: Message) -> PubAck:
        """Read the answer to the commit; check its batch id, count and sequence (BAT-03)."""
        ack = self._read(answer)
        try:
            check_commit(ack, self.id, self.count, self._subject)
        except InvalidAckError as error:
            self.fail(error)
            raise
        self.state = BatchState.COMMITTED
        return ack

    def fail(self, error: Error) -> Error:
        """Mark the batch as failed, or its result as unknown; return the error."""
        self.state = BatchState.FAILED
        self._failure = error
        return error

    def _read(self, answer: Message) -> PubAck:
        try:
            if (status := answer.status) is not None:
                raise StatusError(status.code, status.description, where=self._subject)
            return read_pub_ack(answer.payload, self._subject, self.expected_stream)
        except Error as error:
            self.fail(error)
            raise

    def check_open(self) -> None:
        """Raise BatchClosedError if the batch accepts no more messages."""
        if not self.is_open:
            why = f": {self._failure}" if self._failure is not None else ""
            raise BatchClosedError(f"the atomic batch {self.id!r} is {self.state.value}{why}; begin another one")
