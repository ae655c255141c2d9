"""The handle of a consumer (ADR-37)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from jetspark.aio.jetstream.consumer_columns import ConsumerColumns
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause

if TYPE_CHECKING:
    from jetspark.aio.jetstream.consumer_manager import ConsumerManager

__all__ = ["Consumer"]


class Consumer(ConsumerColumns):
    """The handle of a consumer. Created by `create_consumer`, `consumer` and similar calls of a context or a stream."""

    def __init__(self, js: ConsumerManager, info: ConsumerInfo) -> None:
        super().__init__(js, info)

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r} of stream {self.stream_name!r}>"

    @property
    def name(self) -> str:
        """Name of the consumer, given or generated."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._info.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._info

    async def info(self, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Ask the server for configuration and state.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            The consumer is gone (10014), or its stream is (10059).
        """
        self._info = await self._js.consumer_info(self.stream_name, self.name, timeout=timeout)
        return self._info

    async def delete(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete the consumer. Errors are those of `info`."""
        await self._js.delete_consumer(self.stream_name, self.name, timeout=timeout)

    async def pause(self, until: datetime, *, timeout: float | None = None) -> ConsumerPause:  # noqa: ASYNC109
        """Pause delivery until a time; open pulls still get heartbeats. A past time resumes it."""
        return await self._js.pause_consumer(self.stream_name, self.name, until, timeout=timeout)

    async def resume(self, *, timeout: float | None = None) -> ConsumerPause:  # noqa: ASYNC109
        """Resume delivery."""
        return await self._js.resume_consumer(self.stream_name, self.name, timeout=timeout)

    async def unpin(self, group: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Release the pinned client of a priority group (ADR-42)."""
        await self._js.unpin_consumer(self.stream_name, self.name, group, timeout=timeout)

    async def reset(self, seq: int | None = None, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Move the consumer to a sequence of the stream; None is the first one after the ack floor."""
        self._info = await self._js.reset_consumer(self.stream_name, self.name, seq, timeout=timeout)
        return self._info
