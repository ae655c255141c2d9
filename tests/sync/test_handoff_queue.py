"""Items go from one thread to others once each, in order, and a waiting thread always notices them and the end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import pytest

from jetspark.sync.handoff_queue import HandoffQueue


class Source:
    """The appending side: it wakes the threads only if one of them has requested that."""

    def __init__(self) -> None:
        self.items: deque[int] = deque()
        self.ended = False
        self.wanted = False
        self.on_request: Callable[[], None] = lambda: None
        self.queue = HandoffQueue(self.items, lambda: self.ended, self._request_wake)

    def _request_wake(self) -> None:
        self.wanted = True
        self.on_request()

    def put(self, *items: int) -> None:
        self.items.extend(items)
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self.wanted:
            self.wanted = False
            self.queue.wake()


@pytest.fixture
def source() -> Source:
    return Source()


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_items_are_taken_in_order_and_then_the_end(source: Source) -> None:
    source.put(1, 2)
    source.end()
    assert [source.queue.take(), source.queue.take(), source.queue.take()] == [1, 2, None]


def test_without_an_item_in_time_it_raises(source: Source) -> None:
    with pytest.raises(TimeoutError):
        source.queue.take(0)
    with pytest.raises(TimeoutError):
        source.queue.take(0.01)
    source.put(1)
    assert source.queue.take(0) == 1


@pytest.mark.parametrize("last", [False, True])
def test_an_item_that_comes_while_a_thread_requests_to_be_woken_is_noticed(source: Source, last: bool) -> None:
    def come() -> None:
        source.on_request = lambda: None
        source.items.append(1)
        source.ended = last

    source.on_request = come
    assert source.queue.take() == 1
    if last:
        assert source.queue.take() is None


def test_an_end_that_comes_while_a_thread_requests_to_be_woken_is_noticed(source: Source) -> None:
    def end() -> None:
        source.ended = True

    source.on_request = end
    assert source.queue.take() is None


def test_an_item_that_arrives_with_the_end_right_after_the_check_is_taken() -> None:
    source = Source()

    def is_ended() -> bool:
        ended = source.ended
        if not ended:
            source.items.append(1)
            source.ended = True
        return ended

    queue = HandoffQueue(source.items, is_ended, lambda: None)
    assert queue.take() == 1
    assert queue.take() is None


def test_several_threads_take_each_item_once(source: Source) -> None:
    count, taken = 20_000, [list[int](), list[int](), list[int]()]

    def take_all(into: list[int]) -> None:
        while (item := source.queue.take()) is not None:
            into.append(item)

    threads = [in_thread(lambda into=into: take_all(into)) for into in taken]  # type: ignore[misc]
    for number in range(count):
        source.put(number)
    source.end()
    source.queue.wake()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert sorted(number for each in taken for number in each) == list(range(count))
    assert all(each == sorted(each) for each in taken)
