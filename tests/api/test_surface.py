"""What users see of the main classes is what is written here, on both fronts alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.fronts import PROFILES, Profile

import jetspark
from jetspark import aio, sync
from jetspark.aio import jetstream as aio_jetstream
from jetspark.jetstream import AckPolicy
from jetspark.server import NatsServer
from jetspark.sync import jetstream as sync_jetstream

_CONSUMERS: Final = (
    "consumer consumer_info consumer_names consumers create_consumer create_or_update_consumer delete_consumer "
    "ordered_consumer pause_consumer reset_consumer resume_consumer unpin_consumer update_consumer "
)
_SUBSCRIBED: Final = "closed consumer consumer_info created delivered drain initial_pending pending stream unsubscribe "

SURFACE: Final[dict[str, str]] = {
    "Connection": "address buffered close closed connected drain flush jetstream new_inbox options publish request "
    "server_info servers status subscribe",
    "Subscription": "closed drain dropped error next_msg pending queue received sid subject unsubscribe",
    "Msg": "ack ack_sync headers in_progress metadata nak payload raw_header raw_reply raw_subject reply respond "
    "settled status subject term",
    "JetStream": _CONSUMERS + "account_info atomic_batch create_or_update_stream create_stream delete_stream "
    "direct_get paginate prefix publish publish_async publish_async_completed publish_async_pending "
    "publish_async_stats pull_subscribe pull_subscribe_bind request stream stream_name_by_subject stream_names "
    "streams subscribe subscribe_bind timeout update_stream",
    "Stream": _CONSUMERS
    + "cached_info delete delete_msg get_batch get_last_msgs_for get_last_msg get_msg info name purge "
    "scan secure_delete_msg update",
    "Consumer": "ack_all cached_info consume delete fetch fetch_arrow fetch_bytes fetch_no_wait info name next pause "
    "reset resume stream_name unpin",
    "OrderedConsumer": "cached_info consume fetch info last_sequence next stream_name",
    "ConsumeContext": "closed drain error pending stop wait_closed",
    "PushSubscription": _SUBSCRIBED + "dropped error next_msg pending_bytes pending_msgs queue received sid subject",
    "PullSubscription": _SUBSCRIBED + "fetch pending_bytes pending_msgs",
    "BatchPublisher": "ack add commit count discard id",
    "PubAckFuture": "done exception result subject",
    "Pager": "all pages",
    "ListPager": "all missing offline pages",
}
"""The public names of each class, those of its objects included."""

FRONTS: Final = {"aio": (aio, aio_jetstream), "sync": (sync, sync_jetstream)}


def class_of(front: str, name: str) -> Any:
    """The class of that name."""
    return next(getattr(module, name) for module in FRONTS[front] if hasattr(module, name))


def public(of: object) -> set[str]:
    """Names without an underscore before them."""
    return {name for name in dir(of) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, str]]:
    """Names, kinds and defaults of a call's parameters; `self` is left out."""
    found = list(inspect.signature(function).parameters.values())[1:]
    return [(each.name, each.kind, repr(each.default)) for each in found]


@pytest.mark.parametrize("name", SURFACE)
@pytest.mark.parametrize("front", FRONTS)
def test_a_class_has_the_public_names_that_are_listed(front: str, name: str) -> None:
    expected = set(SURFACE[name].split())
    if (front, name) == ("aio", "PubAckFuture"):
        expected.add("add_done_callback")  # the other one's result is waited for in a thread
    assert public(class_of(front, name)) == expected


@pytest.mark.parametrize("name", sorted(SURFACE.keys() - {"PubAckFuture"}))  # one is awaited, one waits
def test_both_fronts_take_the_same_parameters(name: str) -> None:
    one, other = class_of("aio", name), class_of("sync", name)
    for each in sorted(public(one)):
        call, counterpart = inspect.getattr_static(one, each), inspect.getattr_static(other, each)
        assert inspect.isfunction(call) == inspect.isfunction(counterpart), f"{name}.{each}"
        if inspect.isfunction(call):
            assert parameters(call) == parameters(counterpart), f"{name}.{each}"


def test_the_package_shows_its_names_and_its_parts() -> None:
    """And each of them is there."""
    names = "ConnectOptions Connection Consumer ConsumerConfig Headers JetStream Msg Stream StreamConfig Subscription "
    parts = "aio errors events jetstream sync connect load_context options_from_environment"
    assert public(jetspark) == set(f"{names} TLSOptions {parts}".split())
    for name in dir(jetspark):
        assert getattr(jetspark, name) is not None


def test_both_fronts_export_the_same_names() -> None:
    for one, other in zip(*FRONTS.values(), strict=True):
        assert one.__all__ == other.__all__


@pytest.fixture
def url(server_of: Callable[[Profile], NatsServer]) -> str:
    return server_of(PROFILES["default"]).url


async def test_objects_show_no_more_than_their_classes(url: str) -> None:
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
                assert public(each) == set(SURFACE[type(each).__name__].split()), each
            await context.stop()
            await pushed.unsubscribe()
        finally:
            await stream.delete()


def test_objects_of_the_blocking_front_show_no_more_than_their_classes(url: str) -> None:
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
                assert public(each) == set(SURFACE[type(each).__name__].split()), each
            context.stop()
            pushed.unsubscribe()
        finally:
            stream.delete()
