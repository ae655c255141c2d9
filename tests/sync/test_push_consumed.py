"""A thread takes messages of a push subscription at the moment when the loop begins to watch for that."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from jetspark import sync
from jetspark.aio.jetstream._drivers.push import PushDriver
from jetspark.server import NatsServer
from jetspark.sync.jetstream import PushSubscription
from jetspark.wire.subscriptions import SubscriptionState

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def connection(server: NatsServer) -> Iterator[sync.Connection]:
    with sync.connect(server.url) as connection:
        yield connection


@pytest.fixture
def stream(connection: sync.Connection) -> str:
    name = f"P{next(_numbers)}"
    connection.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    return name


class Taker(threading.Thread):
    """Takes one message when the loop is about to set a field, which waits for it."""

    def __init__(
        self, subscription: PushSubscription, monkeypatch: pytest.MonkeyPatch, kind: type[object], field: str
    ) -> None:
        super().__init__(daemon=True)
        self.subscription = subscription
        self.got: list[bytes] = []
        self.go, self.done = threading.Event(), threading.Event()
        mine = (subscription._inner._core.sub, subscription._inner._core.driver)

        def set_attribute(target: object, name: str, value: object) -> None:
            if name == field and value and target in mine and not self.go.is_set():
                self.go.set()
                self.done.wait(10)
            object.__setattr__(target, name, value)

        monkeypatch.setattr(kind, "__setattr__", set_attribute, raising=False)
        self.start()

    def run(self) -> None:
        self.go.wait(20)
        self.got.append(self.subscription.next_msg(0).payload)
        self.done.set()


def wait_for(condition: Callable[[], object]) -> None:
    tick, deadline = threading.Event(), 2000
    while not condition():
        deadline -= 1
        assert deadline, "it did not come to hold"
        tick.wait(0.005)


@pytest.mark.parametrize("again", [False, True])
def test_a_drain_ends_if_the_last_message_is_taken_meanwhile(
    connection: sync.Connection, stream: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    js = connection.jetstream()
    subscription = js.subscribe(f"{stream}.a", ordered_consumer=again)
    js.publish(f"{stream}.a", b"0")
    wait_for(lambda: subscription.pending[0] == 1)
    taker = Taker(subscription, monkeypatch, SubscriptionState, "notify_on_take")
    subscription.drain(10)
    assert taker.got == [b"0"]
    assert subscription.closed


def test_an_ordered_subscription_continues_if_its_full_queue_is_emptied_meanwhile(
    connection: sync.Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    js = connection.jetstream()
    subscription = js.subscribe(f"{stream}.a", ordered_consumer=True, pending_msgs_limit=1)
    js.publish(f"{stream}.a", b"0")
    wait_for(lambda: subscription.pending[0] == 1)
    taker = Taker(subscription, monkeypatch, SubscriptionState, "over_limit")
    js.publish(f"{stream}.a", b"1")
    assert taker.done.wait(10)
    assert subscription.next_msg(10).payload == b"1"
    assert taker.got == [b"0"]
    subscription.unsubscribe()  # nothing sets a field while the patch is taken back


def test_flow_control_is_answered_if_its_message_is_taken_meanwhile(
    connection: sync.Connection, server: NatsServer, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    js = connection.jetstream()
    subscription = js.subscribe(f"{stream}.a")
    js.publish(f"{stream}.a", b"0")
    wait_for(lambda: subscription.pending[0] == 1)
    taker = Taker(subscription, monkeypatch, PushDriver, "flow_reply_at")
    header = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
    frame = b"HPUB %s $JS.FC.forged %d %d\r\n%s\r\n" % (subscription.subject.encode(), len(header), len(header), header)
    with sync.connect(server.url) as other:
        answers = other.subscribe("$JS.FC.>")
        other.flush()
        other._core.stage.send(frame)
        assert answers.next_msg(10).subject == "$JS.FC.forged"
    assert taker.got == [b"0"]
    subscription.unsubscribe()  # nothing sets a field while the patch is taken back
