"""The handle of a stream (ADR-37)."""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream.stream_consumers import StreamConsumers
from jetspark.aio.jetstream.stream_messages import StreamMessages
from jetspark.jetstream.api import (
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamSubjectsRequest,
    StreamUpdateRequest,
    all_subjects,
)
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.config_keywords import StreamConfigFields
from jetspark.jetstream.info import StreamInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Stream"]


@checks_arguments()
class Stream(StreamMessages, StreamConsumers):
    """The handle of a stream. Created by `create_stream`, `stream` and similar calls of a context."""

    async def info(
        self,
        *,
        deleted_details: bool = False,
        subjects_filter: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        if subjects_filter is None:
            self._info = await self._core.request(StreamInfoRequest(self.name, deleted_details), timeout)
            return self._info
        pages = all_subjects(StreamSubjectsRequest(self.name, subjects_filter, deleted_details))
        request = next(pages)
        while True:
            page = await self._core.request(request, timeout)
            try:
                request = pages.send(page)
            except StopIteration as end:
                self._info = end.value
                return self._info

    async def update(self, *, timeout: float | None = None, **changes: Unpack[StreamConfigFields]) -> StreamInfo:  # noqa: ASYNC109
        """Change some fields of the configuration and keep the others, also fields of a newer server.

            await stream.update(max_age=timedelta(days=7))

        The configuration is read, changed and written. A change by somebody else between read and write is overwritten.

        Raises
        ------
        StreamNotFoundError
            The stream does not exist any more (10059).
        StreamConfigError, APIError
            The change is not possible.
        """
        config = make_config(StreamConfig, (await self.info(timeout=timeout)).config, changes)
        self._info = await self._core.request(StreamUpdateRequest(config), timeout)
        return self._info

    async def delete(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete the stream with its messages and consumers. Errors are those of `info`."""
        await self._core.request(StreamDeleteRequest(self.name), timeout)
