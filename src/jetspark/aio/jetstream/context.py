"""The JetStream context: everything that is done with JetStream begins here (ADR-37)."""

from __future__ import annotations

from jetspark.aio.jetstream.publishing import Publishing
from jetspark.aio.jetstream.stream_manager import StreamManager
from jetspark.aio.jetstream.subscribing import Subscribing
from jetspark.jetstream.account import AccountInfo
from jetspark.jetstream.api import AccountInfoRequest

__all__ = ["JetStream"]


class JetStream(StreamManager, Publishing, Subscribing):
    """JetStream over a connection. Made by `Connection.jetstream`; it holds nothing that has to be closed.

    Its parts are the classes that it derives from; each has a module of its own.
    """

    def __repr__(self) -> str:
        return f"<JetStream {self.prefix.removesuffix('.')} over {self.connection!r}>"

    async def account_info(self, *, timeout: float | None = None) -> AccountInfo:  # noqa: ASYNC109
        """What the account uses and may use of JetStream.

        Raises
        ------
        JetStreamNotEnabledForAccountError
            The account has no JetStream (10039).
        JetStreamNotEnabledError
            The server, or the domain, has none.
        """
        return await self.request(AccountInfoRequest(), timeout)
