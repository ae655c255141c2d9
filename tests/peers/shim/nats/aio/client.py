"""The connection with the names of nats-py."""

import inspect
from types import SimpleNamespace

import jetspark
from jetspark.aio.jetstream import AsyncPublishOptions
from jetspark.events import Disconnected, ErrorOccurred, Reconnected, SlowConsumer
from nats.aio.msg import wrapped
from nats.aio.subscription import Subscription
from nats.js.client import JetStreamContext

__all__ = ["Client"]

_FOR_EVER = 3600  # seconds that a publish waits for space when no time was given


class Client:
    """A connection."""

    def __init__(self):
        self._inner = None
        self._callbacks = {}

    async def connect(
        self,
        servers="nats://localhost:4222",
        inbox_prefix="_INBOX",
        verbose=False,
        error_cb=None,
        disconnected_cb=None,
        reconnected_cb=None,
    ):
        """Connect. Callbacks become one event handler; `verbose` is never on in jetspark."""
        assert not verbose
        self._callbacks = {
            "error_cb": error_cb,
            "disconnected_cb": disconnected_cb,
            "reconnected_cb": reconnected_cb,
        }
        prefix = inbox_prefix.decode() if isinstance(inbox_prefix, bytes) else inbox_prefix
        self._inner = await jetspark.connect(servers, on_event=self._tell, inbox_prefix=prefix)

    async def _tell(self, event):
        arguments = ()
        if isinstance(event, ErrorOccurred | SlowConsumer):
            name, arguments = "error_cb", (event.error,)
        else:
            name = {Disconnected: "disconnected_cb", Reconnected: "reconnected_cb"}.get(type(event), "")
        if (callback := self._callbacks.get(name)) is not None:
            result = callback(*arguments)
            if inspect.isawaitable(result):
                await result

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @property
    def connected_server_version(self):
        """Version of the server."""
        major, minor, patch = self._inner.server_info.version.split("-")[0].split(".")
        return SimpleNamespace(major=int(major), minor=int(minor), patch=int(patch))

    async def publish(self, subject, payload=b"", reply="", headers=None):
        """Publish."""
        await self._inner.publish(subject, payload, reply=reply, headers=headers)

    async def subscribe(self, subject, queue="", cb=None):
        """Subscribe."""
        return Subscription(await self._inner.subscribe(subject, queue=queue, callback=wrapped(cb)))

    def jetstream(self, domain=None, timeout=5, publish_async_max_pending=4000):
        """JetStream."""
        return JetStreamContext(
            self._inner,
            self._inner.jetstream(domain=domain, timeout=timeout),
            _Publishing(self._inner, domain, timeout, publish_async_max_pending),
        )

    jsm = jetstream


class _Publishing:
    """Contexts for asynchronous publishes, one for each time that a publish may wait for space."""

    def __init__(self, connection, domain, timeout, max_pending):
        self._make = lambda wait: connection.jetstream(
            domain=domain,
            timeout=timeout,
            publishing=AsyncPublishOptions(max_pending=max_pending, stall_wait=_FOR_EVER if wait is None else wait),
        )
        self._made = {}

    def __call__(self, wait):
        """Return the context for that time."""
        if wait not in self._made:
            self._made[wait] = self._make(wait)
        return self._made[wait]

    def made(self):
        """Return all contexts."""
        return list(self._made.values())
