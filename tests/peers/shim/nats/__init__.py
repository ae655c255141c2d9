"""The names of nats-py, so that its public test suite can run with jetspark. It renames, and adds no behaviour."""

from nats.aio.client import Client

__all__ = ["connect"]


async def connect(servers="nats://localhost:4222", **options):
    """Connect, as nats-py does."""
    client = Client()
    await client.connect(servers, **options)
    return client
