"""Runs of acknowledgements: a run taken from the buffer equals the result of the read loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.engine.ack_runs import AckRunMatcher
from jetspark.engine.publish_window import AsyncPublishOptions, PendingPublish, PublishWindow
from jetspark.wire.frames import Control
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

PREFIX = b"_IN.box."
SID = 4


def _frame(token: bytes, payload: bytes, sid: int = SID, prefix: bytes = PREFIX) -> bytes:
    return b"MSG %b%b %d %d\r\n%b\r\n" % (prefix, token, sid, len(payload), payload)


def _token(number: int) -> bytes:
    return b"t%015d" % number


def _ack(seq: int, stream: str = "S", end: str = "}") -> bytes:
    return f'{{"stream":"{stream}", "seq":{seq}{end}'.encode()


def _runs(*payloads: bytes) -> AckRunMatcher:
    runs = AckRunMatcher(PREFIX, SID)
    for payload in payloads:
        runs.add_form(payload)
    return runs


def test_a_run_is_found_from_its_first_byte_to_its_last() -> None:
    frames = [_frame(_token(number), _ack(100 + number)) for number in range(50)]
    data = b"PING\r\n" + b"".join(frames) + b"PING\r\n"
    end, found = _runs(_ack(500)).find(data, 6)
    assert end == len(data) - 6
    assert found == [(_token(number), _ack(100 + number)) for number in range(50)]


def test_a_run_ends_at_longer_sequences_until_their_form_is_learned() -> None:
    data = b"".join(_frame(_token(1), _ack(seq)) for seq in (98, 99, 100, 101))
    runs = _runs(_ack(10))
    end, found = runs.find(data, 0)
    assert [payload for _, payload in found] == [_ack(98), _ack(99)]
    runs.add_form(_ack(100))
    assert len(runs.find(data, 0)[1]) == 4
    assert len(runs.find(data, end)[1]) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PING\r\n",
        _frame(_token(1), _ack(17))[:-1],
        _frame(_token(1), _ack(17), sid=5),
        _frame(_token(1), _ack(17), sid=44),
        _frame(_token(1), _ack(17), prefix=b"_IN.other."),
        _frame(_token(1), _ack(17), prefix=b"_INxbox."),
        _frame(_token(1) + b"a", _ack(17)),
        _frame(_token(1)[:-1], _ack(17)),
        _frame(b"." + _token(1)[1:], _ack(17)),
        _frame(_token(1), _ack(0) + b" "),
        _frame(_token(1), b'{"stream":"S", "seq":07}'),
        _frame(b"", _ack(17)),
        _frame(_token(1), _ack(17, "T")),
        _frame(_token(1), _ack(17, end=',"duplicate": true}')),
        _frame(_token(1), b'{"stream":"S", "seq":x7}'),
        _frame(_token(1), _ack(17)).replace(b" 24\r", b" 25\r"),
        _frame(_token(1), _ack(17)).replace(b" 24\r", b" 024\r"),
        b"H" + _frame(_token(1), _ack(17)),
        _frame(_token(1) + b" reply", _ack(17)),
    ],
)
def test_other_frames_are_not_consumed(data: bytes) -> None:
    assert _runs(_ack(10)).find(data, 0) == (0, ())


def test_text_inside_a_payload_is_not_taken_for_a_frame() -> None:
    inner = _ack(17) + b"\r\n" + _frame(_token(2), _ack(18))
    assert _runs(_ack(10)).find(_frame(_token(1), inner), 0) == (0, ())


def test_nothing_is_found_before_a_form_is_learned() -> None:
    assert _runs().find(_frame(_token(1), _ack(17)), 0) == (0, ())


@pytest.mark.parametrize(
    "payload", [b"", b"hello", _ack(17, end=',"duplicate": true}'), b'{"stream":"\r", "seq":1}', b'{"seq":}']
)
def test_other_payloads_are_not_learned(payload: bytes) -> None:
    assert _runs(payload).find(_frame(_token(1), payload), 0) == (0, ())


def test_forms_are_kept_up_to_a_limit() -> None:
    payloads = [_ack(17, f"S{number}") for number in range(100)]
    runs = _runs(*payloads, *payloads)
    found = [bool(runs.find(_frame(_token(1), payload), 0)[1]) for payload in payloads]
    assert found == [True] * 24 + [False] * 76


class _Publish(PendingPublish, gc=False, eq=False):
    def _wake(self) -> None:
        assert isinstance(self._waiter, list)
        self._waiter.append("woken")


def _window(with_runs: bool) -> tuple[PublishWindow[_Publish], SubscriptionState, list[_Publish]]:
    window: PublishWindow[_Publish] = PublishWindow("_IN.box", _Publish, AsyncPublishOptions())
    window.next_token = map(_token, itertools.count(1)).__next__

    def read(publish: _Publish, message: Message) -> None:
        window.handle_reply(publish, message, 0.0)

    window.on_other_reply = read
    sub = SubscriptionState(SID, b"_IN.box.*")
    sub.handler = window.deliver
    if with_runs:
        window.set_sid(SID)
        sub.on_following_frames = window.deliver_ack_run
    return window, sub, [window.add("a", window.next_token(), b"frame", 0.0, None) for _ in range(60)]


def _fed(data: bytes, cuts: list[int], with_runs: bool) -> object:
    window, sub, publishes = _window(with_runs)
    for publish in publishes[::7]:
        publish._waiter = []
    below_limit: list[int] = []
    window.notify_at = 30
    window.on_below_limit = lambda: below_limit.append(1)
    controls: list[Control] = []
    inbound = Inbound(
        {b"%d" % SID: sub}, on_control=controls.append, on_full=lambda sub: True, on_last_message=lambda sub: None
    )
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for begin, end in itertools.pairwise(places):
        inbound.feed(data[begin:end])
    outcomes = [(each._reply, str(each._error), each._frame, each._waiter) for each in publishes]
    return outcomes, window.stats, controls, sub.received, bool(below_limit)


_payloads = st.one_of(
    st.integers(1, 10**7).map(_ack),
    st.integers(1, 10**7).map(_ack),
    st.builds(_ack, st.integers(1, 999), st.sampled_from(["S", "T"])),
    st.just(_ack(5, end=',"duplicate": true}')),
    st.just(b'{"error":{"code":400,"err_code":10071,"description":"x"},"stream":"S","seq":0}'),
    st.just(b"hello\r\nMSG _IN.box.9 4 2\r\nno"),
)


@given(
    st.lists(st.tuples(st.integers(1, 70), _payloads, st.booleans()), max_size=60),
    st.lists(st.integers(0, 10**5), max_size=8),
)
def test_the_result_is_the_same_with_and_without_runs(answers: list[tuple[int, bytes, bool]], cuts: list[int]) -> None:
    data = b"".join(_frame(_token(token), payload) + b"PING\r\n" * ping for token, payload, ping in answers)
    assert _fed(data, cuts, with_runs=True) == _fed(data, cuts, with_runs=False)


def test_waiters_are_woken_and_unmatched_acks_are_counted_in_a_run() -> None:
    window, sub, publishes = _window(with_runs=True)
    publishes[5]._waiter = []
    notified: list[str] = []
    window.on_below_limit = lambda: notified.append("below_limit")
    window.notify_at = 40
    inbound: Callable[[bytes], object] = Inbound(
        {b"%d" % SID: sub}, on_control=lambda frame: None, on_full=lambda sub: True, on_last_message=lambda sub: None
    ).feed
    inbound(b"".join(_frame(_token(token), _ack(token + 100)) for token in (*range(1, 31), 3, 999)))
    assert publishes[5]._waiter == ["woken"]
    assert notified == ["below_limit"]
    stats = window.stats
    assert (stats.acknowledged, stats.pending, stats.unmatched_acks) == (30, 30, 2)
    assert sub.received == 32
