"""The last messages of many subjects by batched direct get (`multi_last`, ADR-31)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from jetspark.bulk.direct_get_replies import DirectMessages
from jetspark.bulk.direct_get_source import chain_length, check_increasing, request_many
from jetspark.bulk.range_source import ReadTarget
from jetspark.engine.ranges import InterruptedReadError
from jetspark.jetstream.direct_get import DirectBatchEnd, DirectMultiLastRequest
from jetspark.wire.reply_tokens import new_tokens

__all__ = ["MultiLast"]

_MAX_SUBJECTS: Final = 1024
"""Most subjects of a `multi_last`; the server refuses more (413)."""


class MultiLast:
    """Reads the last messages of subjects. A context manager: it has a subscription for the replies.

    Parameters
    ----------
    target
        The stream, the connection and the limits.
    schema
        Columns to return.
    """

    def __init__(self, target: ReadTarget, schema: pa.Schema) -> None:
        self.where = f"direct get from stream {target.stream!r}"
        self._target = target
        self._schema = schema
        self._inbox = target.connection.new_inbox()
        self._next_token = new_tokens()
        self._sid = 0

    def __enter__(self) -> Self:
        """Subscribe to the replies."""
        self._sid = self._target.connection.subscribe(f"{self._inbox}.*")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscription."""
        if not self._target.connection.closed:
            self._target.connection.unsubscribe(self._sid)

    def read(
        self, subjects: Sequence[str], up_to: int | None = None
    ) -> Iterator[tuple[tuple[str, ...], list[pa.RecordBatch]]]:
        """Yield the subjects of each request, and their last messages at or before a sequence; None for the newest.

        Raises
        ------
        InterruptedReadError
            A reply is missing.
        RequestTimeoutError
            The replies stopped.
        """
        for at in range(0, len(subjects), _MAX_SUBJECTS):
            some = tuple(subjects[at : at + _MAX_SUBJECTS])
            request = DirectMultiLastRequest(self._target.stream, some, up_to_sequence=up_to)
            yield some, list(self._pages(request))

    def _pages(self, request: DirectMultiLastRequest | None) -> Iterator[pa.RecordBatch]:
        """Yield all pages of a request."""
        while request is not None:
            page, request = replace(request, max_bytes=self._target.limits.max_bytes_in_flight), None
            last = 0
            reply_to = f"{self._inbox}.{self._next_token().decode()}"
            for reply in request_many(self._target, page, reply_to, self._sid, self.where):
                if isinstance(reply, DirectMessages):
                    check_increasing(reply, max(last + 1, page.sequence or 1), self.where)
                    if chain_length(reply, last) < len(reply):
                        raise InterruptedReadError(f"{self.where}: a message after sequence {last} is missing")
                    last = int(reply.sequence[-1])
                    yield reply.to_record_batch(self._schema)
                else:
                    self._check_end(reply, last)
                    request = page.next_request(reply)

    def _check_end(self, end: DirectBatchEnd, last: int) -> None:
        if (end.found and end.last_sequence != last) or (not end.found and last):
            raise InterruptedReadError(f"{self.where}: the batch was cut off after sequence {last}")
