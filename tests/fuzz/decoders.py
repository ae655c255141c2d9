"""All readers of frames, on the same bytes: they must read the same, or all refuse."""

from __future__ import annotations

import random
from typing import Final

import numpy as np
import pyarrow as pa
from tests.fuzz.frames import SIDS, FrameMaker
from tests.fuzz.parsers import Disagreement
from tests.wire.readers import Reading, read_in_pieces, read_loop, read_scalar, read_vector, read_vector_in_pieces

from jetspark.bulk.columns import parse_ack_subjects
from jetspark.errors import Error
from jetspark.jetstream import parse_ack_subject
from jetspark.wire.frames import FrameLimits, MsgFrame
from jetspark.wire.headers import parse_header_block
from jetspark.wire.vector import decode
from jetspark.wire.vector.headers import decode_headers

__all__ = ["DecoderCase"]

_SIDS: Final = frozenset(SIDS)


class DecoderCase:
    """A stream of bytes for all readers; the cuts are the same for the same bytes."""

    def __init__(self, limits: FrameLimits) -> None:
        self._limits = limits

    def __call__(self, data: bytes) -> None:
        """Raise Disagreement if two readers decide differently."""
        limits, maker = self._limits, FrameMaker(random.Random(len(data)))
        scalar = read_scalar(data, limits)
        vector = read_vector(data, limits)
        if scalar.refused != vector.refused or (not scalar.refused and scalar != vector):
            raise Disagreement(f"scalar {_shown(scalar)}, vector {_shown(vector)}")
        cut = maker.pieces(data)
        if (pieces := read_in_pieces(cut, limits)) != scalar:
            raise Disagreement(f"scalar whole {_shown(scalar)}, in pieces {_shown(pieces)}")
        pieces = read_vector_in_pieces(cut, limits)
        if pieces.refused != scalar.refused or (not scalar.refused and pieces != scalar):
            raise Disagreement(f"scalar {_shown(scalar)}, vector in pieces {_shown(pieces)}")
        wanted = [frame for frame in scalar.frames if not isinstance(frame, MsgFrame) or frame.sid in _SIDS]
        loop = read_loop(cut, SIDS, limits)
        if (loop.frames, loop.refused) != (wanted, scalar.refused):
            raise Disagreement(f"scalar {_shown(scalar)}, read loop {_shown(loop)}")
        if not scalar.refused:
            messages = [frame for frame in scalar.frames if isinstance(frame, MsgFrame)]
            _check_acks(data, limits, messages)
            _check_headers(messages)


def _shown(reading: Reading) -> str:
    return "refuses" if reading.refused else f"reads {len(reading.frames)} frames, {len(reading.rest)} bytes left"


def _check_acks(data: bytes, limits: FrameLimits, messages: list[MsgFrame]) -> None:
    """Compare the readers of ack subjects, for the messages that have a reply."""
    replies = [frame.reply for frame in messages if frame.reply]
    if not replies:
        return
    try:
        found = [parse_ack_subject(reply.decode("utf-8", "replace")) for reply in replies]
        scalar = [(each.stream_sequence, each.consumer_sequence, each.timestamp_ns) for each in found]
        if any(number >= 2**63 for row in scalar for number in row):  # no number of a column
            scalar = []
    except Error:
        scalar = []
    table = decode(pa.py_buffer(data), limits)
    has_reply = table.lines.reply_end > table.lines.reply_start
    try:
        acks = parse_ack_subjects((table if has_reply.all() else table.select(has_reply)).lines)
        columns = (acks.sequence.tolist(), acks.consumer_sequence.tolist(), acks.timestamp_ns.tolist())
        vector = list(zip(*columns, strict=True))
    except Error:
        vector = []
    if scalar != vector:
        raise Disagreement(f"the parser reads {scalar[:2]}, the columns {vector[:2]} of {len(replies)} ack subjects")


def _check_headers(messages: list[MsgFrame]) -> None:
    blocks = [frame.header for frame in messages]
    if not any(blocks):
        return
    column = decode_headers(pa.array(blocks, pa.binary()), np.array([bool(block) for block in blocks]))
    for block, found in zip(blocks, column.to_pylist(), strict=True):
        wanted: dict[str, list[str]] = {}
        for key, value in parse_header_block(block).items():
            wanted.setdefault(_clean(key), []).append(_clean(value))
        if (list(wanted.items()) if block else None) != found:
            raise Disagreement(f"the parser reads {wanted}, the column {found}, of {block!r}")


def _clean(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
