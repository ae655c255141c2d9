"""The ground of the JetStream tests: three kinds of servers, both fronts, and a second connection.

A test asks for `ground` (or only its context, as `js`) and runs once for each front on each server profile. The session
shares the servers: each test has its own stream names, and its streams are deleted after the test.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import layers
from tests.carried import FrontName, connect
from tests.connection.support import Recorder, eventually

from jetspark import aio
from jetspark.aio.jetstream import JetStream, Stream
from jetspark.errors import NoRespondersError, RequestTimeoutError, StreamNotFoundError
from jetspark.jetstream import StorageType
from jetspark.jetstream.names import API_PREFIX
from jetspark.server import NatsServer
from jetspark.wire.messages import Message

__all__ = [
    "PROFILES",
    "FrontName",
    "Ground",
    "Profile",
    "Recorder",
    "Spy",
    "connect",
    "eventually",
    "make_stream",
    "open_ground",
]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Profile:
    """A kind of server, and the options to connect to it."""

    name: str
    config: Mapping[str, object] = field(default_factory=dict)
    """The configuration of the server."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the connection under test."""
    admin_options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the observing connection, which has all permissions."""
    domain: str | None = None
    """The JetStream domain of the context."""


_ALICE = {
    "user": "alice",
    "password": "wonder",
    "permissions": {"publish": ">", "subscribe": "_INBOX_alice.>"},
}
_ADMIN = {"user": "admin", "password": "rabbit"}

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("default"),
        Profile("v2_domain", {"feature_flags": {"js_ack_fc_v2": True}, "jetstream": {"domain": "hub"}}, domain="hub"),
        Profile(
            "private_inbox",
            {"authorization": {"users": [_ALICE, _ADMIN]}},
            {"user": "alice", "password": "wonder", "inbox_prefix": "_INBOX_alice"},
            _ADMIN,
        ),
    )
}
assert tuple(PROFILES) == layers.PROFILES


class Spy:
    """Keeps messages that are published to some subjects."""

    def __init__(self, ground: Ground, subscriptions: list[aio.Subscription]) -> None:
        self._ground = ground
        self._subscriptions = subscriptions
        self.messages: list[Message] = []

    @property
    def subjects(self) -> list[str]:
        """Return the subjects of the messages so far."""
        return [message.subject for message in self.messages]

    async def settled(self) -> list[Message]:
        """Return all messages that the connection under test has published until now."""
        await self._ground.nc.flush()
        await self._ground.admin.flush()
        await eventually(lambda: not any(subscription.pending[0] for subscription in self._subscriptions))
        return self.messages

    async def wait(self, count: int) -> list[Message]:
        """Return the messages once there are `count`."""
        await eventually(lambda: len(self.messages) >= count, what=f"{count} messages in {self.subjects}")
        return self.messages

    async def close(self) -> None:
        """Stop observing. The server counts a spy as a responder, so it sends no 503."""
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        await self._ground.admin.flush()


@dataclass
class Ground:
    """The servers, connections and streams of a test."""

    front: FrontName
    profile: Profile
    server: NatsServer
    nc: aio.Connection
    """The connection under test."""
    js: JetStream
    """The context under test."""
    admin: aio.Connection
    """A second connection, on asyncio and without limits, to observe and to interfere."""
    admin_js: JetStream
    """The context of the second connection."""
    stack: AsyncExitStack
    _made: list[str] = field(default_factory=list)

    def name(self, prefix: str = "S") -> str:
        """Return a name that no other test uses. A stream of that name is deleted after the test."""
        name = f"{prefix}{next(_numbers)}"
        self._made.append(name)
        return name

    async def stream(self, **fields: Any) -> Stream:
        """Create a stream in memory that takes `<name>.>`, unless the fields say otherwise. The test deletes it."""
        name = fields.setdefault("name", self.name())
        fields.setdefault("storage", StorageType.MEMORY)
        if not {"subjects", "mirror", "sources"} & fields.keys():
            fields["subjects"] = [f"{name}.>"]
        return await make_stream(self.js, **fields)

    async def fill(self, subject: str, *payloads: bytes) -> None:
        """Publish messages and wait until the stream has them."""
        last = len(payloads) - 1
        for number, payload in enumerate(payloads):
            if 0 < number < last:
                await self.admin.publish(subject, payload)
            else:
                await self._store(subject, payload)

    async def _store(self, subject: str, payload: bytes) -> None:
        """Publish a message, and repeat it while a server of a cluster does not know the subscription."""
        async with asyncio.timeout(30):
            while True:
                try:
                    await self.admin.request(subject, payload)
                except NoRespondersError:
                    await asyncio.sleep(0.02)
                else:
                    return

    async def connect(self, **options: Any) -> aio.Connection:
        """Open another connection of the front under test, which is closed after the test."""
        connection = await connect(self.front, self.server.url, **{**self.profile.options, **options})
        self.stack.push_async_callback(connection.close)
        return connection

    async def spy(self, *subjects: str) -> Spy:
        """Observe messages to the subjects; by default the requests of the API.

        The server removes a domain from the subject of a request before any subscriber sees it.
        """
        subscriptions = [await self.admin.subscribe(each) for each in subjects or (f"{API_PREFIX}>",)]
        spy = Spy(self, subscriptions)
        for subscription in subscriptions:
            task = asyncio.create_task(_keep(subscription, spy.messages))
            self.stack.push_async_callback(_ended, task)
        await self.admin.flush()
        return spy

    async def listening(self) -> list[str]:
        """Return the subjects of the connection's subscriptions, as the server knows them."""
        await self.nc.flush()
        number = str(self.nc.server_info.client_id)
        found: Any = await asyncio.to_thread(self.server.monitor, "/connz", subs="1", cid=number)
        return sorted(found["connections"][0].get("subscriptions_list", []))

    async def inject(self, subject: str, header: bytes, payload: bytes = b"", reply: str = "") -> None:
        """Publish a raw header block, such as `NATS/1.0 409 Some Text\\r\\n\\r\\n`: a status of the server."""
        sizes = f"{len(header)} {len(header) + len(payload)}"
        frame = f"HPUB {subject} {reply} {sizes}\r\n".encode() + header + payload + b"\r\n"
        self.admin._core.client.outbound.queue_publish(frame)
        await self.admin.flush()

    async def clean_up(self) -> None:
        """Delete the streams of the test."""
        if self.server.running and not self.admin.closed:
            for name in self._made:
                await self._delete(name)

    async def _delete(self, name: str) -> None:
        for _ in range(4):
            try:
                await self.admin_js.delete_stream(name)
            except StreamNotFoundError:
                return
            except RequestTimeoutError:  # its leader was killed, or steps down: the request is lost
                continue
            return
        raise TimeoutError(f"stream {name} could not be deleted")


async def make_stream(js: JetStream, **fields: Any) -> Stream:
    """Create a stream. For a replicated one repeat the request: servers may vote twice, or not know it yet."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await js.create_stream(**fields)
            except RequestTimeoutError:
                if fields.get("num_replicas", 1) == 1:
                    raise


async def _keep(subscription: aio.Subscription, messages: list[Message]) -> None:
    async for message in subscription:
        messages.append(message)  # noqa: PERF401 - readers look at the list meanwhile


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def open_ground(
    front: FrontName,
    profile: Profile,
    server: NatsServer,
    admin_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Ground]:
    """Connect to a server; for tests with their own server. `options` are those of the connection under test."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))  # blocking calls wait there
    async with AsyncExitStack() as stack:
        nc = await connect(front, server.url, **{**profile.options, **options})
        stack.push_async_callback(nc.close)
        admin = await aio.connect(server.url, **(profile.admin_options if admin_options is None else admin_options))
        stack.push_async_callback(admin.close)
        contexts = nc.jetstream(domain=profile.domain), admin.jetstream(domain=profile.domain)
        ground = Ground(front, profile, server, nc, contexts[0], admin, contexts[1], stack)
        try:
            yield ground
        finally:
            await ground.clean_up()
