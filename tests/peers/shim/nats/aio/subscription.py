"""Subscriptions with the names of nats-py."""

from jetspark.errors import SubscriptionClosedError
from nats.aio.msg import Msg
from nats.js.api import shown
from nats.js.errors import renamed

__all__ = ["Subscription"]


class Subscription:
    """A subscription."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @property
    def messages(self):
        """The iterator."""
        return self._iterate()

    async def _iterate(self):
        async for message in self._inner:
            yield Msg(None, message)

    async def next_msg(self, timeout=1.0):
        """Return the next message; the default timeout is one second."""
        return Msg(None, await self._inner.next_msg(timeout))

    async def fetch(self, batch=1, timeout=5, heartbeat=None):
        """Fetch messages of a pull subscription."""
        with renamed():
            return [Msg(None, message) for message in await self._inner.fetch(batch, timeout, heartbeat)]

    async def consumer_info(self):
        """Return the consumer info."""
        return shown(await self._inner.consumer_info())

    async def unsubscribe(self, limit=0):
        """Unsubscribe."""
        if self._inner.closed:
            raise SubscriptionClosedError("the subscription has ended")
        await (self._inner.unsubscribe(limit) if limit else self._inner.unsubscribe())
