"""The JetStream context, the start of all JetStream calls (ADR-37)."""

from __future__ import annotations

from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.jetstream.key_value_manager import KeyValueManager
from jetspark.aio.jetstream.object_store_manager import ObjectStoreManager
from jetspark.aio.jetstream.publishing import Publishing
from jetspark.aio.jetstream.stream_manager import StreamManager
from jetspark.aio.jetstream.subscribing import Subscribing
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.jetstream.account import AccountInfo
from jetspark.jetstream.api import AccountInfoRequest
from jetspark.wire.argument_types import checks_arguments

__all__ = ["JetStream", "open_context"]


@checks_arguments()
class JetStream(StreamManager, KeyValueManager, ObjectStoreManager, Publishing, Subscribing):
    """JetStream over a connection. Created by `Connection.jetstream`; it needs no close.

    Its calls are in its base classes; each has a module of its own.
    """

    def __repr__(self) -> str:
        return f"<JetStream {self.prefix.removesuffix('.')} over {self._core.connection!r}>"

    async def account_info(self, *, timeout: float | None = None) -> AccountInfo:  # noqa: ASYNC109
        """Return usage and limits of the account's JetStream.

        Raises
        ------
        JetStreamNotEnabledForAccountError
            The account has no JetStream (10039).
        JetStreamNotEnabledError
            The server, or the domain, has no JetStream.
        """
        return await self._core.request(AccountInfoRequest(), timeout)


def open_context(
    connection: ConnectionCore, prefix: str, timeout: float, publishing: AsyncPublishOptions | None
) -> JetStream:
    """Return a context over a connection."""
    return JetStream(JetStreamCore(connection, prefix, timeout, publishing))
