"""The handle of a consumer (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consumer`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime

from jetspark.aio.jetstream import consumer as aio
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause
from jetspark.sync.jetstream.consumer_columns import ConsumerColumns

__all__ = ["Consumer"]


class Consumer(ConsumerColumns):
    """The handle of a consumer. Created by `create_consumer`, `consumer` and similar calls of a context or a stream."""

    _inner: aio.Consumer

    @property
    def name(self) -> str:
        """Name of the consumer, given or generated."""
        return self._inner.name

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._inner.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._inner.cached_info

    def info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Ask the server for configuration and state.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            The consumer is gone (10014), or its stream is (10059).
        """
        return self._call(self._inner.info(timeout=timeout))

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete the consumer. Errors are those of `info`."""
        self._call(self._inner.delete(timeout=timeout))

    def pause(self, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Pause delivery until a time; open pulls still get heartbeats. A past time resumes it."""
        return self._call(self._inner.pause(until, timeout=timeout))

    def resume(self, *, timeout: float | None = None) -> ConsumerPause:
        """Resume delivery."""
        return self._call(self._inner.resume(timeout=timeout))

    def unpin(self, group: str, *, timeout: float | None = None) -> None:
        """Release the pinned client of a priority group (ADR-42)."""
        self._call(self._inner.unpin(group, timeout=timeout))

    def reset(self, seq: int | None = None, *, timeout: float | None = None) -> ConsumerInfo:
        """Move the consumer to a sequence of the stream; None is the first one after the ack floor."""
        return self._call(self._inner.reset(seq, timeout=timeout))
