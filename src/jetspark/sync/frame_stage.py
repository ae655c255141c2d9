"""Frames on their way from the callers' threads to the event loop.

A caller's thread encodes and checks a publish, and appends it to a list, which the loop takes over in one step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from jetspark.sync.loop_thread import EventLoopThread
from jetspark.wire.errors import OutboundBufferLimitError
from jetspark.wire.outbound import Outbound

__all__ = ["FrameStage"]

_LIMIT: Final = 1 << 20


class FrameStage:
    """The frames that the loop has not taken over yet.

    Parameters
    ----------
    outbound
        The queue of the connection on the loop.
    flush
        Sends that queue; called on the loop.

    Attributes
    ----------
    lock
        Protects the frames.
    size
        Their bytes.
    """

    def __init__(self, loop_thread: EventLoopThread, outbound: Outbound, flush: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.size = 0
        self._loop_thread = loop_thread
        self._outbound = outbound
        self._flush = flush
        self._frames: list[bytes] = []
        self._flush_scheduled = False

    def send(self, frame: bytes) -> bool:
        """Stage a frame; return whether so much is queued that the caller should wait. Errors are those of `append`."""
        with self.lock:
            self.append(frame)
        return self.full

    def append(self, frame: bytes) -> None:
        """Stage a frame. The caller must hold `lock`, and look at `full` afterwards.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        """
        outbound = self._outbound
        size = self.size + len(frame)
        if not outbound.online and outbound.size + size > outbound.limit:
            raise OutboundBufferLimitError(
                f"not connected, and {outbound.size + self.size} bytes wait already: "
                f"reconnect_buffer_size is {outbound.limit}"
            )
        if not self._flush_scheduled:
            self._loop_thread.check_caller()
            self._loop_thread.call_soon(self.flush)
            self._flush_scheduled = True
        self._frames.append(frame)
        self.size = size

    @property
    def full(self) -> bool:
        """Whether so much is queued that the server must catch up."""
        return self.size + self._outbound.size > _LIMIT and self._outbound.online

    def flush(self) -> None:
        """On the loop: queue and send the staged frames."""
        self.move_to_loop()
        self._flush()

    def move_to_loop(self) -> None:
        """On the loop: queue the staged frames without sending them."""
        with self.lock:
            frames, self._frames = self._frames, []
            size, self.size = self.size, 0
            self._flush_scheduled = False
        if self._outbound.close_reason is None:
            self._outbound.chunks.extend(frames)
            self._outbound.size += size
