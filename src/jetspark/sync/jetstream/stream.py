"""The handle of a stream (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream import stream as aio
from jetspark.jetstream.config_keywords import StreamConfigFields
from jetspark.jetstream.info import StreamInfo
from jetspark.sync.jetstream.stream_consumers import StreamConsumers
from jetspark.sync.jetstream.stream_messages import StreamMessages
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Stream"]


@checks_arguments()
class Stream(StreamMessages, StreamConsumers):
    """The handle of a stream. Created by `create_stream`, `stream` and similar calls of a context."""

    _inner: aio.Stream

    def info(
        self, *, deleted_details: bool = False, subjects_filter: str | None = None, timeout: float | None = None
    ) -> StreamInfo:
        """Ask the server for configuration and state (STM-02).

        Parameters
        ----------
        deleted_details
            Set `state.deleted` to the deleted sequences.
        subjects_filter
            Set `state.subjects` to the number of messages of each matching subject; `>` for all. The number of subjects
            is not limited: the server returns 100,000 at a time, and all pages are requested.
        timeout
            Seconds, for each page; None takes `timeout` of the context.

        Raises
        ------
        StreamNotFoundError
            The stream does not exist any more (10059).
        """
        return self._call(
            self._inner.info(deleted_details=deleted_details, subjects_filter=subjects_filter, timeout=timeout)
        )

    def update(self, *, timeout: float | None = None, **changes: Unpack[StreamConfigFields]) -> StreamInfo:
        """Change some fields of the configuration and keep the others, also fields of a newer server.

            stream.update(max_age=timedelta(days=7))

        The configuration is read, changed and written. A change by somebody else between read and write is overwritten.

        Raises
        ------
        StreamNotFoundError
            The stream does not exist any more (10059).
        StreamConfigError, APIError
            The change is not possible.
        """
        return self._call(self._inner.update(timeout=timeout, **changes))

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete the stream with its messages and consumers. Errors are those of `info`."""
        self._call(self._inner.delete(timeout=timeout))
