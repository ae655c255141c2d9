"""A scripted API, for answers that a real server never sends, or no longer sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.fronts import Ground

from jetspark.aio.jetstream import JetStream
from jetspark.wire.messages import Message

__all__ = ["fake_api"]

Answer = bytes | tuple[bytes, bytes]
"""A payload, or a raw header block and a payload."""


async def fake_api(
    ground: Ground,
    answers: Callable[[str, bytes], Iterable[Answer]],
    timeout: float = 5.0,  # noqa: ASYNC109 (of the context)
) -> JetStream:
    """Return a context whose API is answered by a function of the request's endpoint and payload."""
    prefix = f"{ground.name('FAKE')}.API"

    async def answer(message: Message) -> None:
        for each in answers(message.subject.removeprefix(f"{prefix}."), message.payload):
            header, payload = each if isinstance(each, tuple) else (b"", each)
            if header:
                await ground.inject(message.reply, header, payload)
            else:
                await ground.admin.publish(message.reply, payload)

    await ground.admin.subscribe(f"{prefix}.>", callback=answer)
    await ground.admin.flush()
    return ground.nc.jetstream(prefix=prefix, timeout=timeout)
