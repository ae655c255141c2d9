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
from nats.js.kv import KeyValue, bucket_fields, stream_fields
from nats.js.object_store import ObjectStore, store_fields

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
        return _acked(await self._inner.publish(subject, payload, headers=headers, timeout=timeout, **fields))

    async def publish_async(self, subject, payload=b"", wait_stall=None, stream=None, headers=None, msg_ttl=None):
        """Publish without waiting."""
        context = self._publishing(wait_stall)  # jetspark has it on the context
        sent = await context.publish_async(subject, payload, headers=headers, **_publish_fields(stream, msg_ttl))
        return _Acked(sent)

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

    async def purge_stream(self, name, seq=None, subject=None, keep=None):
        """Purge a stream."""
        await self._ask(lambda: api.StreamPurgeRequest(name, subject, seq, keep))
        return True

    async def delete_stream(self, name):
        """Delete a stream."""
        await self._ask(lambda: api.StreamDeleteRequest(name))
        return True

    async def get_msg(self, stream_name, seq=None, subject=None, direct=False, next=False):  # noqa: A002
        """A message."""
        if direct:
            by = {"next_by_subject" if next else "last_by_subject": subject, "sequence": seq}
            return _stored(await self._inner.direct_get(DirectGetRequest(stream_name, **by)))
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

    # -- buckets --

    async def create_key_value(self, config=None, **fields):
        """Create a bucket."""
        given = bucket_fields(config, fields)
        await self._inner.create_key_value(**given)
        stream = await self._inner.stream(f"KV_{given['bucket']}")
        await stream.update(**stream_fields(config, fields))
        return await self.key_value(given["bucket"])

    async def key_value(self, bucket):
        """Open a bucket."""
        return KeyValue(await self._inner.key_value(bucket), self)

    async def delete_key_value(self, bucket):
        """Delete a bucket."""
        await self._inner.delete_key_value(bucket)
        return True

    async def create_object_store(self, bucket=None, config=None, **fields):
        """Create a store."""
        return ObjectStore(await self._inner.create_object_store(**store_fields(bucket, config, fields)))

    async def object_store(self, bucket):
        """Open a store."""
        return ObjectStore(await self._inner.object_store(bucket))

    async def delete_object_store(self, bucket):
        """Delete a store."""
        await self._inner.delete_object_store(bucket)
        return True

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


def _acked(ack):
    return SimpleNamespace(
        stream=ack.stream, seq=ack.sequence, duplicate=ack.duplicate or None, domain=ack.domain or None
    )


class _Acked:
    """A publish in flight, whose acknowledgement has the names of nats-py."""

    def __init__(self, future):
        self._future = future

    def __await__(self):
        return _acked((yield from self._future.__await__()))


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
