"""Runs of plain acknowledgements, taken off the receive buffer without an object for each.

While a window is busy, one acknowledgement comes behind the other, and they differ in two numbers:

    MSG _INBOX.x.17 4 26\\r\\n{"stream":"S", "seq":1017}\\r\\nMSG _INBOX.x.18 4 26\\r\\n{"stream":"S", "seq":1018}\\r\\n

So a pattern is made of what was seen: the text before the sequence, and for a number of digits the one size that such a
payload has. It matches only frames that are what they say, whole and from their first byte. Where it does not match,
the read loop goes on frame by frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jetspark.jetstream.publish import before_sequence

__all__ = ["AckRuns"]

_MOST_FORMS: Final = 24


class AckRuns:
    """Finds runs of acknowledgements of one subscription.

    Parameters
    ----------
    prefix
        The reply subjects without their tokens.
    sid
        Id of the subscription.
    """

    __slots__ = ("_forms", "_frame", "_head", "_run", "_sid")

    def __init__(self, prefix: bytes, sid: int) -> None:
        self._head = b"MSG " + re.escape(prefix)
        self._sid = sid
        self._forms: dict[tuple[bytes, int], bytes] = {}
        self._run: re.Pattern[bytes] | None = None
        # What is in a run needs no check any more: its payloads hold no line end.
        self._frame = re.compile(rb"%b(\d++) %d \d++\r\n([^\r]++)\r\n" % (self._head, sid))

    def learn(self, payload: bytes) -> None:
        """An acknowledgement without anything unusual came; others will look like it. Only some forms are kept."""
        text = before_sequence(payload)
        if text is None or b"\r" in text:
            return
        digits = len(payload) - len(text) - 1
        if (text, digits) in self._forms or len(self._forms) >= _MOST_FORMS:
            return
        form = rb"%d\r\n%b\d{%d}\}" % (len(payload), re.escape(text), digits)
        self._forms = {(text, digits): form, **self._forms}  # sequences grow: the latest form is the likeliest
        forms = b"|".join(self._forms.values())
        self._run = re.compile(rb"(?:%b\d++ %d (?:%b)\r\n)++" % (self._head, self._sid, forms))

    def find(self, data: bytes, at: int) -> tuple[int, Sequence[tuple[bytes, bytes]]]:
        """The run that begins at a place of the buffer: where it ends, and the token and payload of each."""
        run = self._run.match(data, at) if self._run is not None else None
        if run is None:
            return at, ()
        return run.end(), self._frame.findall(data, at, run.end())
