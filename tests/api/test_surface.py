"""Objects show the public names of their classes and no others, and both fronts take the same parameters.

`docs/api.md` lists the names; `tests/tools/test_public_names.py` compares it with the code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.fronts import PROFILES, Profile
from tools.parsed_modules import load
from tools.public_source import public_entry

from jetspark import aio, sync
from jetspark.aio import jetstream as aio_jetstream
from jetspark.jetstream import AckPolicy
from jetspark.server import NatsServer
from jetspark.sync import jetstream as sync_jetstream

FRONTS: Final = ((aio, sync), (aio_jetstream, sync_jetstream))
CLASSES: Final = {
    name: (getattr(one, name), getattr(other, name))
    for one, other in FRONTS
    for name in one.__all__
    if inspect.isclass(getattr(one, name)) and getattr(one, name) is not getattr(other, name)
}
"""The classes that each front has for itself."""


def public(of: object) -> set[str]:
    """Return the names without a leading underscore."""
    return {name for name in dir(of) if not name.startswith("_")}


def listed(of: object) -> set[str]:
    """Names of the object's class, those of its bases included, as the page lists them."""
    cls = type(of)
    found = load(cls.__module__).resolve(cls.__name__)
    assert found is not None
    return {member.name for member in public_entry(found, cls.__name__).members}


def parameters(function: Any) -> list[tuple[str, Any, str]]:
    """Return names, kinds and defaults of the parameters of a call, without `self`."""
    found = list(inspect.signature(function).parameters.values())[1:]
    return [(each.name, each.kind, repr(each.default)) for each in found]


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"PubAckFuture"}))  # one is awaited, one waits
def test_both_fronts_take_the_same_parameters(name: str) -> None:
    one, other = CLASSES[name]
    assert public(one) == public(other)
    for each in sorted(public(one)):
        call, counterpart = inspect.getattr_static(one, each), inspect.getattr_static(other, each)
        assert inspect.isfunction(call) == inspect.isfunction(counterpart), f"{name}.{each}"
        if inspect.isfunction(call):
            assert parameters(call) == parameters(counterpart), f"{name}.{each}"


def test_both_fronts_export_the_same_names() -> None:
    for one, other in FRONTS:
        assert one.__all__ == other.__all__


@pytest.fixture
def url(server_of: Callable[[Profile], NatsServer]) -> str:
    return server_of(PROFILES["default"]).url


async def test_objects_have_no_more_public_names_than_their_classes(url: str) -> None:
    async with await aio.connect(url) as connection:
        js = connection.jetstream()
        stream = await js.create_stream(name="SURFACE", subjects=["surface.>"])
        try:
            await js.publish("surface.a", b"1")
            consumer = await stream.create_consumer(name="c", ack_policy=AckPolicy.EXPLICIT)
            context = consumer.consume()
            message = await anext(context)
            pushed = await js.subscribe("surface.a")
            pulled = await js.pull_subscribe("surface.a", durable="p")
            batch, ordered, plain = js.atomic_batch(), stream.ordered_consumer(), await connection.subscribe("x")
            for each in (connection, js, stream, consumer, context, message, pushed, pulled, batch, ordered, plain):
                assert public(each) == listed(each), each
            await context.stop()
            await pushed.unsubscribe()
        finally:
            await stream.delete()


def test_objects_of_the_blocking_front_have_no_more_public_names_than_their_classes(url: str) -> None:
    with sync.connect(url) as connection:
        js = connection.jetstream()
        stream = js.create_stream(name="SURFACE", subjects=["surface.>"])
        try:
            js.publish("surface.a", b"1")
            consumer = stream.create_consumer(name="c", ack_policy=AckPolicy.EXPLICIT)
            context = consumer.consume()
            message = next(context)
            pushed = js.subscribe("surface.a")
            pulled = js.pull_subscribe("surface.a", durable="p")
            batch, ordered, plain = js.atomic_batch(), stream.ordered_consumer(), connection.subscribe("x")
            for each in (connection, js, stream, consumer, context, message, pushed, pulled, batch, ordered, plain):
                assert public(each) == listed(each), each
            context.stop()
            pushed.unsubscribe()
        finally:
            stream.delete()
