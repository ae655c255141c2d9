"""The blocking API.

connection = jetspark.sync.connect("nats://localhost:4222")
"""

from jetspark.sync.connection import Connection, EventHandler, connect
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Callback, Subscription

__all__ = ["Callback", "Connection", "EventHandler", "Msg", "Subscription", "connect"]
