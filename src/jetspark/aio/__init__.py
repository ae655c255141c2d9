"""The asyncio API.

connection = await jetspark.connect("nats://localhost:4222")
"""

from jetspark.aio.connection import Connection, EventHandler, connect
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Callback, Subscription

__all__ = ["Callback", "Connection", "EventHandler", "Msg", "Subscription", "connect"]
