"""The names of nats-py, for its own public test suite to run against jetspark. It renames, and adds no behaviour."""

from nats.aio.client import Client

__all__ = ["connect"]


async def connect(servers="nats://localhost:4222", **options):
    """Connect, as nats-py does."""
    client = Client()
    await client.connect(servers, **options)
    return client
