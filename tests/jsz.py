"""What a server tells its monitor of a stream: also one that does not lead it, and so answers no request for it."""

from __future__ import annotations

from jetspark.server import NatsServer, ServerError
from jetspark.server.monitor import items_at, number_at, text_at

__all__ = ["consumers_at", "last_sequence_at"]


def last_sequence_at(server: NatsServer, stream: str) -> int:
    """The last sequence that a server has of a stream; -1 when it does not know the stream, or is too busy to tell."""
    detail = _detail(server, stream)
    return -1 if detail is None else number_at(detail, "state", "last_seq")


def consumers_at(server: NatsServer, stream: str) -> list[str]:
    """The consumers that a server has of a stream; none when it does not know the stream, or is too busy to tell."""
    return [text_at(each, "name") for each in items_at(_detail(server, stream), "consumer_detail")]


def _detail(server: NatsServer, stream: str) -> object:
    try:
        told = server.monitor("/jsz", accounts="true", streams="true", consumers="true")
    except ServerError:
        return None
    streams = [each for account in items_at(told, "account_details") for each in items_at(account, "stream_detail")]
    return next((each for each in streams if text_at(each, "name") == stream), None)
