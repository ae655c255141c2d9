"""The JetStream context: everything that is done with JetStream begins here (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.context`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import context as aio
from jetspark.jetstream.account import AccountInfo
from jetspark.sync.jetstream.publishing import Publishing
from jetspark.sync.jetstream.stream_manager import StreamManager
from jetspark.sync.jetstream.subscribing import Subscribing

__all__ = ["JetStream"]


class JetStream(StreamManager, Publishing, Subscribing):
    """JetStream over a connection. Made by `Connection.jetstream`; it holds nothing that has to be closed.

    Its parts are the classes that it derives from; each has a module of its own.
    """

    _inner: aio.JetStream

    def account_info(self, *, timeout: float | None = None) -> AccountInfo:
        """What the account uses and may use of JetStream.

        Raises
        ------
        JetStreamNotEnabledForAccountError
            The account has no JetStream (10039).
        JetStreamNotEnabledError
            The server, or the domain, has none.
        """
        return self._call(self._inner.account_info(timeout=timeout))
