"""The JetStream context with the names of nats-py."""

import base64
import datetime
from types import SimpleNamespace

from jetspark.errors import APIError, ConfigError
from jetspark.jetstream import api
from jetspark.jetstream.direct_get import DirectGetRequest
from jetspark.jetstream.times import Timestamp
from jetspark.wire.headers import encode_header_block
from nats.aio.msg import wrapped
from nats.aio.subscription import Subscription
from nats.js.api import ConsumerConfig, StreamConfig, shown
from nats.js.errors import renamed

__all__ = ["JetStreamContext"]


def _config(kind, config, fields):
    """Convert arguments to the types of jetspark."""
    given = (config or kind()).given()
    return {**given, **kind(**fields).given()}


def _made(config):
    return None if config is None else ConsumerConfig._struct(**config.given())


class JetStreamContext:
    """A context."""

    def __init__(self, connection, inner, publishing):
        self._connection = connection
        self._inner = inner
        self._publishing = publishing  # the time that a publish waits for space

    async def _ask(self, make):
        with renamed():
            return await self._inner.request(make())

    # -- publishing --

    async def publish(self, subject, payload=b"", timeout=None, stream=None, headers=None, msg_ttl=None):
        """Publish."""
        fields = _publish_fields(stream, msg_ttl)
        return await self._inner.publish(subject, payload, headers=headers, timeout=timeout, **fields)

    async def publish_async(self, subject, payload=b"", wait_stall=None, stream=None, headers=None, msg_ttl=None):
        """Publish without waiting."""
        context = self._publishing(wait_stall)  # jetspark has it on the context
        return await context.publish_async(subject, payload, headers=headers, **_publish_fields(stream, msg_ttl))

    def publish_async_pending(self):
        """Return how many publishes are in flight."""
        return sum(context.publish_async_pending for context in self._publishing.made())

    async def publish_async_completed(self):
        """Wait for the publishes in flight."""
        for context in self._publishing.made():
            await context.publish_async_completed()

    # -- streams --

    async def account_info(self):
        """The account."""
        return shown(await self._ask(api.AccountInfoRequest))

    async def add_stream(self, config=None, **fields):
        """Create a stream."""
        with renamed():
            given = _config(StreamConfig, config, fields)
            if "name" not in given:
                raise ConfigError("a stream needs a name")
            try:
                return shown((await self._inner.create_stream(None, **given)).cached_info)
            except APIError as error:
                if "compression" not in error.description:
                    raise
                raise ValueError(f"nats: invalid store compression type: {given['compression']}") from error

    async def update_stream(self, config=None, **fields):
        """Change a stream."""
        with renamed():
            return shown((await self._inner.update_stream(None, **_config(StreamConfig, config, fields))).cached_info)

    async def stream_info(self, name, subjects_filter=None):
        """A stream."""
        found = shown(await self._ask(lambda: api.StreamInfoRequest(name, subjects_filter=subjects_filter)))
        found.state.subjects = found.state.subjects or None
        return found

    async def streams_info(self, offset=0):
        """A page of streams."""
        return [shown(each) for each in (await self._ask(lambda: api.StreamListRequest(offset=offset))).items]

    async def purge_stream(self, name):
        """Purge a stream."""
        await self._ask(lambda: api.StreamPurgeRequest(name))
        return True

    async def delete_stream(self, name):
        """Delete a stream."""
        await self._ask(lambda: api.StreamDeleteRequest(name))
        return True

    async def get_msg(self, stream_name, seq=None, subject=None, direct=False, next=False):  # noqa: A002
        """A message."""
        if direct:
            by = {"next_by_subject" if next else "last_by_subject": subject, "sequence": seq}
            request = DirectGetRequest(stream_name, **by)
            reply = await self._connection.request(request.subject(self._inner.prefix), request.payload())
            return _stored(request.read(reply.status, reply.headers, reply.payload))
        return _stored(
            await self._ask(lambda: api.MessageGetRequest(stream_name, sequence=seq, last_by_subject=subject))
        )

    async def delete_msg(self, stream_name, seq):
        """Delete a message."""
        await self._ask(lambda: api.MessageDeleteRequest(stream_name, seq))
        return True

    # -- consumers --

    async def add_consumer(self, stream, config=None, **fields):
        """Create a consumer, or update it."""
        with renamed():
            given = _config(ConsumerConfig, config, fields)
            return shown((await self._inner.create_or_update_consumer(stream, None, **given)).cached_info)

    async def consumer_info(self, stream, consumer, timeout=None):
        """A consumer."""
        with renamed():
            return shown(await self._inner.consumer_info(stream, consumer, timeout=timeout))

    async def consumers_info(self, stream, offset=0):
        """A page of consumers."""
        return [
            shown(each)
            for each in (await self._ask(lambda: api.ConsumerListRequest(stream=stream, offset=offset))).items
        ]

    async def delete_consumer(self, stream, consumer):
        """Delete a consumer."""
        await self._ask(lambda: api.ConsumerDeleteRequest(stream, consumer))
        return True

    async def pause_consumer(self, stream, consumer, pause_until):
        """Pause a consumer."""
        return shown(await self._ask(lambda: api.ConsumerPauseRequest(stream, consumer, Timestamp.parse(pause_until))))

    async def resume_consumer(self, stream, consumer):
        """Resume a consumer."""
        return shown(await self._ask(lambda: api.ConsumerPauseRequest(stream, consumer)))

    # -- subscriptions --

    async def subscribe(self, subject, queue=None, cb=None, config=None, flow_control=None, **options):
        """Subscribe."""
        with renamed(queue):
            return Subscription(
                await self._inner.subscribe(
                    subject,
                    queue or "",
                    callback=wrapped(cb),
                    config=_made(config),
                    flow_control=flow_control or None,
                    **options,
                )
            )

    async def subscribe_bind(self, stream, config, consumer, cb=None, **options):
        """Subscribe to a consumer that exists."""
        with renamed():
            return Subscription(
                await self._inner.subscribe_bind(stream, _made(config), consumer, callback=wrapped(cb), **options)
            )

    async def pull_subscribe(self, subject, durable=None, stream=None, config=None):
        """Pull."""
        with renamed():
            return Subscription(await self._inner.pull_subscribe(subject, durable, stream=stream, config=_made(config)))

    async def pull_subscribe_bind(self, consumer=None, stream=None, name=None, durable=None):
        """Pull from a consumer that exists."""
        with renamed():
            return Subscription(await self._inner.pull_subscribe_bind(consumer or name or durable, stream))


def _publish_fields(stream, msg_ttl):
    fields = {} if stream is None else {"expected_stream": stream}
    return fields if msg_ttl is None else {**fields, "ttl": datetime.timedelta(seconds=msg_ttl)}


def _stored(message):
    headers = message.headers
    return SimpleNamespace(
        subject=message.subject,
        seq=message.sequence,
        data=message.payload,
        time=message.timestamp,
        hdrs=base64.b64encode(encode_header_block(headers)).decode(),
        headers={key: headers[key] for key in headers} or None,
    )
