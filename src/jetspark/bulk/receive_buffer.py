"""The receive buffer of a connection: collects bytes of the socket until they are worth decoding."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import deque
from typing import Final

import numpy as np
import pyarrow as pa

from jetspark.bulk.open_session import set_timeout
from jetspark.wire.errors import DisconnectedError, Error
from jetspark.wire.frames import Err, FrameLimits
from jetspark.wire.options import ServerAddress
from jetspark.wire.session import parse_err
from jetspark.wire.vector import FrameTable, decode

__all__ = ["ReceiveBuffer", "UnreadTables"]

_INITIAL_SIZE: Final = 1 << 20
_MAX_LINE: Final = FrameLimits().line
_MORE_BYTES_TIMEOUT: Final = 0.002  # seconds to wait for more bytes before decoding
_MAX_COLLECT_TIME: Final = 0.02  # most seconds from the first bytes to decoding
_MAX_READS_AFTER_LOSS: Final = 16
_MAX_UNREAD: Final = 256 << 20  # bytes
_MAX_RECEIVE: Final = 1 << 18  # bytes of one call: the time is looked at before the next one
_MAX_RECEIVE_FLOODED: Final = 1 << 15
_MANY_CONTROLS: Final = 1000  # other frames than messages take Python work each
_USUAL_LINE: Final = 1 << 10  # bytes in which a line usually ends
_MAX_LOW_WATERMARK: Final = 1 << 18  # bytes; if a fast reader wakes for less, its system calls slow down the server


class UnreadTables(deque[FrameTable]):
    """Messages of other subscriptions that came while a request waited for its answer."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def append(self, table: FrameTable) -> None:
        """Keep a table. If there are too many, it raises DisconnectedError, and the connection must be closed."""
        super().append(table)
        self._size += table.buffer.size
        if self._size > _MAX_UNREAD:
            self.clear()
            raise DisconnectedError(f"more than {_MAX_UNREAD} bytes of messages came before the answer to a request")

    def popleft(self) -> FrameTable:
        """Remove and return the first table."""
        table = super().popleft()
        self._size -= table.buffer.size
        return table

    def clear(self) -> None:
        """Drop all tables."""
        super().clear()
        self._size = 0


class ReceiveBuffer:
    """The received bytes, and how many of them were decoded."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._bytes = np.empty(_INITIAL_SIZE, np.uint8)
        self._low_watermark = 1  # bytes that must have come before the kernel wakes us
        self.clear()

    def __len__(self) -> int:
        return len(self._bytes)

    def clear(self) -> None:
        """Drop all bytes."""
        self._filled = 0  # bytes in the buffer
        self._decoded = 0  # bytes at the front of the buffer that were returned already
        self._needed = 0  # bytes of the incomplete frame that follows them; 0 if not known
        self._scanned = 0  # bytes of it that hold no line feed
        self._flooded = False  # whether there were very many frames that are no messages
        self._deferred_error: DisconnectedError | None = None  # raised after the bytes that came before the loss

    def begin_session(self, address: ServerAddress, unread: bytes) -> None:
        """Begin with the bytes that followed the handshake."""
        self._address = address
        self._bytes[: len(unread)] = np.frombuffer(unread, np.uint8)
        self._filled, self._decoded = len(unread), 0
        self._needed = self._scanned = 0
        self._low_watermark = 1

    def fill(self, opened: socket.socket, deadline: float, target_bytes: int) -> bool:
        """Receive until there are enough bytes, or nothing more comes; return whether anything came.

        Raises DisconnectedError if the connection is lost and all bytes before were decoded.
        """
        if self._decoded:
            left = self._filled - self._decoded
            self._bytes[:left] = self._bytes[self._decoded : self._filled]
            self._filled, self._decoded = left, 0
        if self._deferred_error is not None:
            raise self._deferred_error
        if self._flooded:
            target_bytes = 1
        got, latest = 0, deadline
        while got < target_bytes and not (got and time.monotonic() >= latest):
            if self._filled == len(self._bytes):
                if got:
                    break
                self._enlarge()
            try:
                count = self._receive_up_to(opened, latest, target_bytes - got, waited=got > 0)
            except DisconnectedError as error:
                if not got:
                    raise
                self._deferred_error = error
                break
            if not count:
                break
            if not got:
                latest = min(deadline, time.monotonic() + _MAX_COLLECT_TIME)
            got += count
        return got > 0

    def last_refusal(self, opened: socket.socket) -> Error | None:
        """Return the error with which the server has closed the session, if it says that a retry is of no use."""
        with contextlib.suppress(Error):
            for _ in range(_MAX_READS_AFTER_LOSS):
                if not self.fill(opened, time.monotonic(), 1):
                    break
                table = self.decode()
                for _, frame in table.controls if table is not None else ():
                    error = parse_err(frame.text, str(self._address)) if isinstance(frame, Err) else None
                    if error is not None and not error.transient:
                        return error
        return None

    def decode(self) -> FrameTable | None:
        """Decode all complete frames; None if there is none. The table is valid until the next `fill`.

        Raises ProtocolError.
        """
        if not self._may_hold_frame():
            return None
        table = decode(pa.py_buffer(self._bytes[: self._filled].data))
        self._decoded, self._needed, self._scanned = table.consumed, table.needed, 0
        self._flooded = len(table.controls) > _MANY_CONTROLS
        return table

    def _may_hold_frame(self) -> bool:
        """Whether there may be a complete frame. Looks at each byte once, however small the pieces are that come."""
        if self._needed:
            return self._filled >= self._needed
        for stop in (self._scanned + _USUAL_LINE, self._filled):
            if b"\n" in self._bytes[self._scanned : min(stop, self._filled)].tobytes():
                return True
        self._scanned = self._filled
        return self._filled > _MAX_LINE

    def _receive_up_to(self, opened: socket.socket, deadline: float, wanted: int, *, waited: bool) -> int:
        """Receive `wanted` bytes, or fewer after a moment; wait until the deadline only for the first bytes."""
        now = time.monotonic()
        if wanted > 1 and now < deadline:
            self._set_low_watermark(opened, min(wanted, _MAX_LOW_WATERMARK))
            if count := self._receive(opened, min(deadline, now + _MORE_BYTES_TIMEOUT)):
                return count
        self._set_low_watermark(opened, 1)
        return self._receive(opened, now if waited else deadline)

    def _set_low_watermark(self, opened: socket.socket, size: int) -> None:
        """Set the number of bytes at which the kernel wakes us. Under TLS the kernel does not know the records."""
        if size == self._low_watermark or isinstance(opened, ssl.SSLSocket):
            return
        self._low_watermark = size
        with contextlib.suppress(OSError):  # if it cannot be set, it stays 1
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _receive(self, opened: socket.socket, deadline: float) -> int:
        set_timeout(opened, deadline)
        try:
            most = _MAX_RECEIVE_FLOODED if self._flooded else _MAX_RECEIVE
            count = opened.recv_into(self._bytes[self._filled : self._filled + most].data)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise DisconnectedError(f"{self._address}: the connection was lost while reading: {error}") from error
        if not count:
            raise DisconnectedError(f"{self._address}: the server closed the connection")
        self._filled += count
        return count

    def _enlarge(self) -> None:
        """Enlarge the buffer for a larger message; the decoder refuses impossible sizes."""
        larger = np.empty(2 * len(self._bytes), np.uint8)
        larger[: self._filled] = self._bytes[: self._filled]
        self._bytes = larger
