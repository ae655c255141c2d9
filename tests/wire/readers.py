"""The scalar parser, the read loop and the vectorised decoder as functions from bytes to frames."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import Frame, FrameLimits, MsgFrame, Parser
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState
from jetspark.wire.vector import FrameTable, decode
from jetspark.wire.vector.byte_spans import gather_spans

DEFAULT = FrameLimits()


class Reading(NamedTuple):
    """The result of a parser for a stream of bytes. The rest is unknown if the bytes are not valid."""

    frames: list[Frame]
    rest: bytes
    refused: bool


def read_scalar(data: bytes, limits: FrameLimits = DEFAULT) -> Reading:
    """Feed all of it to the scalar parser at once."""
    return read_in_pieces([data], limits)


def read_in_pieces(pieces: Iterable[bytes], limits: FrameLimits = DEFAULT) -> Reading:
    """Feed one piece after the other to the scalar parser."""
    parser = Parser(limits)
    frames: list[Frame] = []
    try:
        for piece in pieces:
            frames.extend(parser.feed(piece))
    except ProtocolError:
        return Reading(frames, b"", True)
    return Reading(frames, parser.unread, False)


def read_vector(data: bytes, limits: FrameLimits = DEFAULT) -> Reading:
    """Decode all of it at once, and read every column."""
    try:
        table = decode(pa.py_buffer(data), limits)
        frames = column_frames(table)
    except ProtocolError:
        return Reading([], b"", True)
    assert list(table.frames()) == frames
    return Reading(frames, data[table.consumed :], False)


def column_frames(table: FrameTable) -> list[Frame]:
    """Return the frames from the columns alone, without the scalar parser."""
    lines = table.lines
    columns: list[list[bytes]] = [
        lines.subjects().to_pylist(),
        gather_spans(lines.buffer, lines.reply_start, lines.reply_end).to_pylist(),
        gather_spans(table.buffer, table.body, table.payload).to_pylist(),
        table.payloads().to_pylist(),
    ]
    found: list[Frame] = [
        MsgFrame(subject, sid, reply, header, payload)
        for subject, sid, reply, header, payload in zip(columns[0], lines.sid.tolist(), *columns[1:], strict=True)
    ]
    for number, (before, control) in enumerate(table.controls):
        found.insert(before + number, control)
    return found


def read_vector_in_pieces(pieces: Iterable[bytes], limits: FrameLimits = DEFAULT) -> Reading:
    """Decode as a blocking connection does: what is left over is decoded again, with the next piece."""
    frames: list[Frame] = []
    rest = b""
    try:
        for piece in pieces:
            rest += piece
            table = decode(pa.py_buffer(rest), limits)
            frames += column_frames(table)
            rest = rest[table.consumed :]
    except ProtocolError:
        return Reading(frames, b"", True)
    return Reading(frames, rest, False)


def read_loop(pieces: Iterable[bytes], sids: Iterable[int], limits: FrameLimits = DEFAULT) -> Reading:
    """Feed the read loop of the asyncio connection, with a subscription for each id. Its rest is not shown."""
    frames: list[Frame] = []
    routes: dict[bytes, SubscriptionState] = {}

    def subscribe(sid: int) -> None:
        sub = routes[b"%d" % sid] = SubscriptionState(sid, b">")
        sub.handler = lambda message: frames.append(_as_frame(message, sid))

    for sid in sids:
        subscribe(sid)
    inbound = Inbound(routes, on_control=frames.append, on_full=_keep, on_last_message=_ignore, limits=limits)
    try:
        for piece in pieces:
            inbound.feed(piece)
    except ProtocolError:
        return Reading(frames, b"", True)
    return Reading(frames, b"", False)


def _as_frame(message: Message, sid: int) -> MsgFrame:
    return MsgFrame(message.raw_subject, sid, message.raw_reply, message.raw_header, message.payload)


def _keep(_: SubscriptionState) -> bool:
    return True


def _ignore(_: SubscriptionState) -> None:
    """Do nothing."""
