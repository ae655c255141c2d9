"""Runs of plain acknowledgements, read from the receive buffer without a message object for each.

While a window is busy, many acknowledgements arrive one after the other. They differ in token and sequence:

    MSG _INBOX.x.kd93hAfi2_xTq0Zb 4 26\\r\\n{"stream":"S", "seq":1017}\\r\\n
    MSG _INBOX.x.P0d-vvR8mzLq3w7Y 4 26\\r\\n{"stream":"S", "seq":1018}\\r\\n

So a pattern is built from known payloads: the text before the sequence and, for each number of digits, the size of the
payload. It matches only complete frames, from their first byte, whose size is correct. If it does not match, the read
loop continues frame by frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jetspark.jetstream.publish import plain_ack_prefix
from jetspark.wire.reply_tokens import TOKEN_PATTERN

__all__ = ["AckRunMatcher"]

_MAX_FORMS: Final = 24


class AckRunMatcher:
    """Finder of runs of acknowledgements of one subscription.

    Parameters
    ----------
    prefix
        The reply subjects without their last tokens.
    sid
        Id of the subscription.
    """

    __slots__ = ("_forms", "_frame", "_head", "_run", "_sid")

    def __init__(self, prefix: bytes, sid: int) -> None:
        self._head = b"MSG " + re.escape(prefix)
        self._sid = sid
        self._forms: dict[tuple[bytes, int], bytes] = {}
        self._run: re.Pattern[bytes] | None = None
        # Frames in a run need no further check: their payloads have no line end.
        self._frame = re.compile(rb"%b(%b) %d \d++\r\n([^\r]++)\r\n" % (self._head, TOKEN_PATTERN, sid))

    def add_form(self, payload: bytes) -> None:
        """Add the form of a plain acknowledgement to the pattern. The number of forms is limited."""
        text = plain_ack_prefix(payload)
        if text is None or b"\r" in text:
            return
        digits = len(payload) - len(text) - 1
        if (text, digits) in self._forms or len(self._forms) >= _MAX_FORMS:
            return
        form = rb"%d\r\n%b[1-9]\d{%d}\}" % (len(payload), re.escape(text), digits - 1)
        self._forms = {(text, digits): form, **self._forms}  # sequences grow: the latest form is the most likely
        forms = b"|".join(self._forms.values())
        self._run = re.compile(rb"(?:%b%b %d (?:%b)\r\n)++" % (self._head, TOKEN_PATTERN, self._sid, forms))

    def find(self, data: bytes, at: int) -> tuple[int, Sequence[tuple[bytes, bytes]]]:
        """Find the run that begins at `at`; return where it ends, and token and payload of each acknowledgement."""
        run = self._run.match(data, at) if self._run is not None else None
        if run is None:
            return at, ()
        return run.end(), self._frame.findall(data, at, run.end())
