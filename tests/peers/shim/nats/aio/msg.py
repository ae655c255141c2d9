"""Messages: `data` is jetspark's `payload`, `header` its `headers`."""

from types import SimpleNamespace

from jetspark import Msg as JetsparkMsg

__all__ = ["Msg", "wrapped"]


class Msg:
    """A message with the names of nats-py."""

    def __init__(self, client=None, inner=None):
        self._client = client
        self._inner = inner or JetsparkMsg(b"", b"", b"", b"", client)

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @property
    def reply(self):
        """Reply subject."""
        return self._inner.reply

    @reply.setter
    def reply(self, subject):
        self._inner = JetsparkMsg(b"", subject.encode(), b"", b"", self._client)

    @property
    def data(self):
        """Payload."""
        return self._inner.payload

    @property
    def headers(self):
        """Headers, None where there are none."""
        return {key: self._inner.headers[key] for key in self._inner.headers} or None

    header = headers

    @property
    def metadata(self):
        """Metadata, with both sequences under one name."""
        found = self._inner.metadata
        sequence = SimpleNamespace(stream=found.stream_sequence, consumer=found.consumer_sequence)
        return SimpleNamespace(
            sequence=sequence,
            stream=found.stream,
            consumer=found.consumer,
            domain=found.domain,
            num_delivered=found.num_delivered,
            num_pending=found.num_pending,
            timestamp=found.timestamp,
        )

    async def ack_sync(self, timeout=1.0):
        """Acknowledge and wait; return whether it worked."""
        await self._inner.ack_sync(timeout)
        return self

    async def nak(self, delay=None):
        """Ask for redelivery."""
        await self._inner.nak(delay or 0)


def wrapped(callback):
    """Wrap the callback, so that it gets messages with the names of nats-py."""
    return None if callback is None else lambda message: callback(Msg(None, message))
