"""The hand-written part of a push subscription: threads take its messages, as those of any subscription."""

from __future__ import annotations

from typing import Any

from jetspark.aio.jetstream.push_subscription import PushSubscription
from jetspark.sync._interfaces import core_of
from jetspark.sync.core import ConnectionCore
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.subscription import Subscription
from jetspark.sync.subscription_core import SubscriptionCore

__all__ = ["PushReadMixin"]


class PushReadMixin(LoopProxy, Subscription):
    """The calls of a push subscription that do not run on the event loop."""

    _inner: PushSubscription

    def __init__(self, connection: ConnectionCore, inner: Any) -> None:
        LoopProxy.__init__(self, connection, inner)
        Subscription.__init__(self, SubscriptionCore(connection, core_of(inner)))

    def _drain(self, timeout: float | None) -> None:
        self._core.drain(timeout)
