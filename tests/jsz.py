"""The state of a stream in the monitoring of one server, even if that server is not the leader."""

from __future__ import annotations

from jetspark.server import NatsServer, ServerError
from jetspark.server.monitor import items_at, number_at, text_at

__all__ = ["consumers_at", "last_sequence_at"]


def last_sequence_at(server: NatsServer, stream: str) -> int:
    """Return the last sequence of a stream on a server; -1 if it does not know the stream or is too busy to answer."""
    detail = _detail(server, stream)
    return -1 if detail is None else number_at(detail, "state", "last_seq")


def consumers_at(server: NatsServer, stream: str) -> list[str]:
    """Return the consumers of a stream on a server; none if it does not know the stream or is too busy to answer."""
    return [text_at(each, "name") for each in items_at(_detail(server, stream), "consumer_detail")]


def _detail(server: NatsServer, stream: str) -> object:
    try:
        answer = server.monitor("/jsz", accounts="true", streams="true", consumers="true")
    except ServerError:
        return None
    streams = [each for account in items_at(answer, "account_details") for each in items_at(account, "stream_detail")]
    return next((each for each in streams if text_at(each, "name") == stream), None)
