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
    """A consumer by its name. Made by `create_consumer`, `consumer` and their like, on a context or a stream."""

    _inner: aio.Consumer

    @property
    def name(self) -> str:
        """Its name, also when it was made up."""
        return self._inner.name

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._inner.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """Configuration and state as last told; `info` asks anew."""
        return self._inner.cached_info

    def info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Ask for configuration and state.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            It is gone (10014), or its stream is (10059).
        """
        return self._call(self._inner.info(timeout=timeout))

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete it. Errors are those of `info`."""
        self._call(self._inner.delete(timeout=timeout))

    def pause(self, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Let it deliver nothing until a time; open pulls still get heartbeats. A past time lets it go on."""
        return self._call(self._inner.pause(until, timeout=timeout))

    def resume(self, *, timeout: float | None = None) -> ConsumerPause:
        """Let it go on."""
        return self._call(self._inner.resume(timeout=timeout))

    def unpin(self, group: str, *, timeout: float | None = None) -> None:
        """Release the pinned client of a priority group (ADR-42)."""
        self._call(self._inner.unpin(group, timeout=timeout))

    def reset(self, seq: int | None = None, *, timeout: float | None = None) -> ConsumerInfo:
        """Set it back, or forward, to a sequence of the stream; None is the one behind the ack floor."""
        return self._call(self._inner.reset(seq, timeout=timeout))
