"""The JetStream context, the start of all JetStream calls (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.context`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import context as aio
from jetspark.aio.jetstream.context import open_context
from jetspark.jetstream.account import AccountInfo
from jetspark.sync.jetstream.key_value_manager import KeyValueManager
from jetspark.sync.jetstream.object_store_manager import ObjectStoreManager
from jetspark.sync.jetstream.publishing import Publishing
from jetspark.sync.jetstream.stream_manager import StreamManager
from jetspark.sync.jetstream.subscribing import Subscribing
from jetspark.wire.argument_types import checks_arguments

__all__ = ["JetStream", "open_context"]


@checks_arguments()
class JetStream(StreamManager, KeyValueManager, ObjectStoreManager, Publishing, Subscribing):
    """JetStream over a connection. Created by `Connection.jetstream`; it needs no close.

    Its calls are in its base classes; each has a module of its own.
    """

    _inner: aio.JetStream

    def account_info(self, *, timeout: float | None = None) -> AccountInfo:
        """Return usage and limits of the account's JetStream.

        Raises
        ------
        JetStreamNotEnabledForAccountError
            The account has no JetStream (10039).
        JetStreamNotEnabledError
            The server, or the domain, has no JetStream.
        """
        return self._call(self._inner.account_info(timeout=timeout))
