"""The handle of a stream (ADR-37)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.info import StreamInfo

if TYPE_CHECKING:
    from jetspark.aio.jetstream.consumer_manager import ConsumerManager

__all__ = ["Stream"]


class Stream:
    """A stream by its name. Made by `create_stream`, `stream` and their like."""

    def __init__(self, js: ConsumerManager, info: StreamInfo) -> None:
        self._js = js
        self._info = info

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.config.name

    @property
    def cached_info(self) -> StreamInfo:
        """Configuration and state as last told; `info` asks anew."""
        return self._info

    async def info(self, *, timeout: float | None = None) -> StreamInfo:  # noqa: ASYNC109
        """Ask for configuration and state.

        Raises
        ------
        StreamNotFoundError
            It is gone (10059).
        """
        self._info = await self._js.request(StreamInfoRequest(self.name), timeout)
        return self._info
