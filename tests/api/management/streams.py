"""Streams that several tests use."""

from __future__ import annotations

from tests.fronts import Ground

from jetspark.aio.jetstream import Stream

__all__ = ["direct_stream"]


async def direct_stream(ground: Ground, messages: int = 0, subjects: int = 3, **fields: object) -> Stream:
    """Return a stream that allows direct get. Message n is on subject n modulo `subjects`."""
    stream = await ground.stream(allow_direct=True, **fields)
    for number in range(1, messages + 1):
        subject = f"{stream.name}.{number % subjects}"
        if number < messages:
            await ground.admin.publish(subject, b"%d" % number, headers={"Number": str(number)})
        else:
            await ground.admin.request(subject, b"%d" % number, headers={"Number": str(number)})
    return stream
