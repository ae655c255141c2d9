"""Right and wrong keywords, for a type checker. `make types` checks this file; nothing runs it.

mypy refuses a comment `type: ignore` that is not needed. So each wrong call here shows that mypy finds the mistake.
"""

from datetime import timedelta

import jetspark
from jetspark import bulk, sync


async def right(js: jetspark.JetStream, stream: jetspark.Stream, consumer: jetspark.Consumer) -> None:
    """Use names and types that exist."""
    await js.create_stream(name="S", subjects=["a.>"], max_age=timedelta(days=1), storage="memory")
    await js.update_stream(name="S", retention="limits")
    await js.create_or_update_stream(name="S")
    await stream.update(max_msgs=1)
    await stream.create_consumer(durable_name="d", ack_wait=timedelta(seconds=30), deliver_policy="new")
    await js.create_consumer("S", durable_name="d", timeout=1)
    await js.publish("a", b"x", msg_id="1", headers={"A": "b"})
    await consumer.fetch(10, timeout=5, group="g")
    consumer.consume(max_messages=10)
    await jetspark.connect("nats://a", user="u", password=lambda: "p", servers=["nats://b"])
    sync.connect(user="u", max_reconnects=None)
    bulk.connect(token="t")
    payload: jetspark.Payload = b""
    headers: jetspark.HeadersLike = {"a": "b"}
    await js.publish("a", payload, headers=headers)


async def wrong(js: jetspark.JetStream, stream: jetspark.Stream, consumer: jetspark.Consumer) -> None:
    """Use names and types that do not exist."""
    await js.create_stream(subject="a")  # type: ignore[call-arg]
    await js.create_stream(name="S", max_age=5)  # type: ignore[arg-type]
    await js.update_stream(name="S", max_mesages=5)  # type: ignore[call-arg]
    await js.create_or_update_stream(name="S", subjects="a.>")  # type: ignore[arg-type]
    await stream.update(replicas=3)  # type: ignore[call-arg]
    await js.create_consumer("S", durable="d")  # type: ignore[call-arg]
    await js.create_consumer("S", durable_name="d", ack_wait=30)  # type: ignore[arg-type]
    await stream.create_consumer(durable="d")  # type: ignore[call-arg]
    await stream.create_or_update_consumer(ack_wait=30)  # type: ignore[arg-type]
    await stream.update_consumer(filter="a")  # type: ignore[call-arg]
    await js.publish("a", b"x", message_id="1")  # type: ignore[call-arg]
    await consumer.fetch(10, expires=5)  # type: ignore[call-arg]
    consumer.consume(max_message=10)  # type: ignore[call-arg]
    await jetspark.connect("nats://a", usr="u")  # type: ignore[call-arg]
    await jetspark.connect(max_reconnects="all")  # type: ignore[arg-type]
    sync.connect("nats://a", usr="u")  # type: ignore[call-arg]
    bulk.connect("nats://a", usr="u")  # type: ignore[call-arg]
