"""A message of the asyncio front: what `jetspark.wire.messages` gives, and an answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from jetspark.wire.errors import BadSubjectError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["Msg"]


class Msg(Message, gc=False, eq=False):
    """A received message. Subject, reply and headers are decoded when they are asked for."""

    async def respond(self, payload: Payload = b"", *, headers: HeadersLike | None = None) -> None:
        """Publish to the message's reply subject.

        Raises
        ------
        BadSubjectError
            The sender wants no answer.
        """
        if not self.raw_reply:
            raise BadSubjectError(f"the message on {self.subject!r} has no reply subject")
        await cast("Connection", self.owner).publish(self.reply, payload, headers=headers)
