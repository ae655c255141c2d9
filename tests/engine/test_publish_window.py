"""The window of publishes in flight, without a socket and without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.engine.publish_window import AsyncPublishOptions, PendingPublish, PublishWindow
from jetspark.engine.retry import RetryPolicy
from jetspark.errors import (
    ConfigError,
    DisconnectedError,
    Error,
    InvalidAckError,
    NoStreamResponseError,
    PublishTimeoutError,
    StatusError,
    WrongLastSequenceError,
)
from jetspark.jetstream import PubAck
from jetspark.wire.messages import Message

PLAIN = b'{"stream":"S", "seq":%d}'
WRONG = b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}'
NOBODY = b"NATS/1.0 503\r\n\r\n"


class Publish(PendingPublish, gc=False, eq=False):
    """A publish of the window; `waiter` is a list that counts."""

    def _wake(self) -> None:
        assert isinstance(self._waiter, list)
        self._waiter.append("woken")

    def outcome(self) -> PubAck:
        return self._outcome()

    def failure(self) -> Error | None:
        return self._failure()


class Ground:
    """A window, and its notifications."""

    def __init__(self, **settings: object) -> None:
        self.window: PublishWindow[Publish] = PublishWindow("_IN", Publish, AsyncPublishOptions(**settings))  # type: ignore[arg-type]
        self.window.on_other_reply = self._unusual
        self.window.on_below_limit = lambda: self.notified.append("below limit")
        self.notified: list[str] = []
        self.now = 100.0

    def _unusual(self, publish: Publish, message: Message) -> None:
        self.notified.append("pending" if self.window.handle_reply(publish, message, self.now) else "failed")

    def send(self, subject: str = "a") -> Publish:
        token = self.window.next_token()
        return self.window.add(subject, token, b"PUB %b" % token, self.now, self)

    def answer(self, publish: Publish, payload: bytes = b"", header: bytes = b"") -> None:
        self.window.deliver(Message(self.window.prefix + publish._token, b"", header, payload, None))


def test_each_publish_has_its_own_token_below_one_inbox() -> None:
    ground = Ground()
    tokens = [ground.send()._token for _ in range(5)]
    assert len(set(tokens)) == 5
    assert ground.window.prefix == b"_IN."


def test_a_token_cannot_be_guessed_and_an_answer_to_another_one_is_dropped_and_counted() -> None:
    ground = Ground()
    publishes = [ground.send() for _ in range(4)]
    tokens = [publish._token for publish in publishes]
    assert len({token[-8:] for token in tokens}) == len(tokens)
    for token in (b"5", tokens[0][:-1] + b"!", b""):
        ground.window.deliver(Message(ground.window.prefix + token, b"", b"", PLAIN % 5, None))
    assert not any(publish.done() for publish in publishes)
    assert (ground.window.stats.unmatched_acks, ground.window.stats.pending) == (3, 4)


def test_acknowledgements_find_their_publishes_in_any_order() -> None:
    ground = Ground()
    publishes = [ground.send() for _ in range(4)]
    for at, seq in ((2, 1), (0, 2), (3, 3), (1, 4)):
        ground.answer(publishes[at], PLAIN % seq)
    assert [publish.outcome().sequence for publish in publishes] == [2, 4, 1, 3]
    assert all(publish.done() and publish._frame == b"" for publish in publishes)
    stats = ground.window.stats
    assert (stats.published, stats.pending, stats.acknowledged, stats.failed) == (4, 0, 4, 0)


def test_only_the_first_acknowledgement_of_each_stream_is_parsed_at_once() -> None:
    ground = Ground()
    for _ in range(3):
        ground.answer(ground.send(), PLAIN % 1)
    ground.answer(ground.send(), b'{"stream":"OTHER", "seq":1}')
    ground.answer(ground.send(), b'{"stream":"OTHER", "seq":2}')
    ground.answer(ground.send(), PLAIN % 2)
    assert ground.notified == ["pending", "pending"]


def test_forms_of_acknowledgements_are_learned_up_to_a_limit() -> None:
    ground = Ground()
    for stream in range(40):
        ground.answer(ground.send(), b'{"stream":"S%d", "seq":1}' % stream)
    before = len(ground.notified)
    assert before == 40
    for stream in range(40):
        publish = ground.send()
        ground.answer(publish, b'{"stream":"S%d", "seq":2}' % stream)
        assert publish.outcome() == PubAck(stream=f"S{stream}", sequence=2)
    assert len(ground.notified) - before == 24


@given(st.integers(1, 2**64 - 1), st.booleans(), st.sampled_from(["", "hub"]), st.text("abcXYZ0", min_size=1))
def test_acknowledgements_are_the_same_parsed_early_or_late(seq: int, again: bool, domain: str, stream: str) -> None:
    ground = Ground()
    hub = f'"domain":"{domain}", ' if domain else ""
    end = ',"duplicate": true' if again else ""
    payload = f'{{"stream":"{stream}", {hub}"seq":{seq}{end}}}'.encode()
    publishes = [ground.send() for _ in range(3)]
    for publish in publishes:
        ground.answer(publish, payload)
    expected = PubAck(stream=stream, sequence=seq, domain=domain, duplicate=again)
    assert [publish.outcome() for publish in publishes] == [expected] * 3


def test_an_error_belongs_to_one_publish_and_each_caller_gets_a_copy() -> None:
    ground = Ground()
    publish, other = ground.send(), ground.send()
    ground.answer(publish, WRONG)
    ground.answer(other, PLAIN % 4)
    errors = []
    for _ in range(2):
        with pytest.raises(WrongLastSequenceError, match="a: wrong last sequence: 3") as caught:
            publish.outcome()
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert errors[0].last_sequence == 3
    failure = publish.failure()
    assert isinstance(failure, WrongLastSequenceError)
    assert failure.__traceback__ is None
    assert other.failure() is None
    assert (ground.notified, ground.window.stats.failed) == (["failed", "pending"], 1)


def test_an_invalid_acknowledgement_is_an_error_early_or_late() -> None:
    ground = Ground()
    early, late = ground.send(), ground.send()
    ground.answer(early, b"hello")
    ground.answer(ground.send(), PLAIN % 1)
    ground.answer(late, b'{"stream":"S", "seq":odd}')  # its start is valid, so it is parsed late
    for publish in (early, late):
        assert publish.done()
        assert isinstance(publish.failure(), InvalidAckError)


def test_the_repr_of_a_publish_shows_no_content() -> None:
    ground = Ground()
    pending, good, bad = ground.send("a"), ground.send("b"), ground.send("c")
    ground.answer(good, PLAIN % 7)
    ground.answer(bad, WRONG)
    assert repr(pending) == "<Publish 'a' pending>"
    assert repr(good) == "<Publish 'b' acknowledged>"
    assert repr(bad).startswith("<Publish 'c' failed: c: wrong last sequence")
    assert not [each for each in (pending, good, bad) if "PUB" in repr(each)]


def test_unmatched_answers_are_counted() -> None:
    ground = Ground()
    publish = ground.send()
    ground.answer(publish, PLAIN % 1)
    ground.answer(publish, PLAIN % 1)
    ground.answer(publish, WRONG)
    assert publish.outcome().sequence == 1
    assert ground.window.stats.unmatched_acks == 2


def test_an_unknown_answer_does_not_stop_those_after_it() -> None:
    ground = Ground()
    learned, first, second = (ground.send() for _ in range(3))
    ground.window.set_sid(4)
    ground.answer(learned, PLAIN % 1)
    ground.answer(first, PLAIN % 1)
    payload = PLAIN % 2
    tokens = (first._token, second._token)  # the first one was answered before
    data = b"".join(
        b"MSG %b%b 4 %d\r\n%b\r\n" % (ground.window.prefix, token, len(payload), payload) for token in tokens
    )
    assert ground.window.deliver_ack_run(data, 0) == (len(data), 2)
    assert second.outcome().sequence == 2
    assert ground.window.stats.unmatched_acks == 1


def test_each_waiter_is_woken_once() -> None:
    ground = Ground()
    publishes = [ground.send() for _ in range(4)]
    for publish in publishes:
        publish._waiter = []
    ground.answer(publishes[0], PLAIN % 1)
    ground.answer(publishes[1], PLAIN % 2)
    ground.answer(publishes[2], WRONG)
    ground.window.fail(DisconnectedError("gone"))
    assert [publish._waiter for publish in publishes] == [["woken"]] * 4
    PendingPublish("a", b"1", b"", 0.0, None)._wake()  # a front that does not wait needs no wakeup


def test_the_window_is_full_at_its_limit() -> None:
    ground = Ground(max_pending=3)
    publishes = []
    for _ in range(3):
        assert not ground.window.full
        publishes.append(ground.send())
    assert ground.window.full
    ground.answer(publishes[1], PLAIN % 1)
    assert not ground.window.full


@pytest.mark.parametrize("answer", [PLAIN % 9, WRONG])
def test_falling_below_the_limit_is_reported_once(answer: bytes) -> None:
    ground = Ground()
    publishes = [ground.send() for _ in range(5)]
    ground.answer(ground.send(), PLAIN % 1)
    ground.notified.clear()
    ground.window.notify_at = 3
    ground.answer(publishes[0], answer)
    assert "below limit" not in ground.notified
    ground.answer(publishes[1], answer)
    assert ground.notified.count("below limit") == 1
    ground.answer(publishes[2], answer)
    assert ground.notified.count("below limit") == 1


def test_a_503_is_retried_as_often_as_configured() -> None:
    ground = Ground(retry=RetryPolicy(attempts=2, wait=0.25))
    publish = ground.send("nobody")
    frame = publish._frame
    for retry in (1, 2):
        ground.answer(publish, header=NOBODY)
        assert not publish.done()
        assert list(ground.window.due_retries(ground.now + 0.2)) == []
        assert ground.window.next_wakeup() == ground.now + 0.25
        ground.now += 0.25
        assert list(ground.window.due_retries(ground.now)) == [frame]
        assert (publish._retries, ground.window.stats.retried) == (retry, retry)
    ground.answer(publish, header=NOBODY)
    assert isinstance(publish.failure(), NoStreamResponseError)
    assert "after 2 retries" in str(publish.failure())
    assert ground.notified == ["pending", "pending", "failed"]


def test_a_retry_of_a_settled_publish_is_dropped() -> None:
    ground = Ground()
    publish = ground.send()
    ground.answer(publish, header=NOBODY)
    ground.answer(publish, PLAIN % 1)
    assert list(ground.window.due_retries(ground.now + 1)) == []


def test_a_503_without_time_left_is_not_retried() -> None:
    ground = Ground(ack_timeout=0.2)
    publish = ground.send()
    ground.answer(publish, header=NOBODY)
    assert isinstance(publish.failure(), NoStreamResponseError)
    assert " after " not in str(publish.failure())


def test_another_status_is_raised_as_it_is() -> None:
    ground = Ground()
    publish = ground.send()
    ground.answer(publish, header=b"NATS/1.0 409 Odd\r\n\r\n")
    with pytest.raises(StatusError, match="a: status 409 Odd"):
        publish.outcome()


def test_expired_publishes_fail_and_their_frames_are_returned() -> None:
    ground = Ground(ack_timeout=2.0)
    first = ground.send("first")
    frame = first._frame
    ground.now += 1
    second = ground.send("second")
    assert ground.window.next_wakeup() == 101.5  # for the PING
    assert not ground.window.ping_due(101.4)
    assert ground.window.ping_due(101.5)
    assert ground.window.next_wakeup() == 102.0
    assert ground.window.expire(101.9) == []
    assert ground.window.expire(102.0) == [(first, frame)]
    with pytest.raises(PublishTimeoutError, match="first: no acknowledgement within 2 s"):
        first.outcome()
    assert not second.done()
    assert not ground.window.ping_due(102.0)
    assert ground.window.next_wakeup() == 102.5


@pytest.mark.parametrize("answered", [True, False])
def test_a_publish_that_expires_says_whether_the_server_answers_ping(*, answered: bool) -> None:
    ground = Ground(ack_timeout=2.0)
    early = ground.send("early")
    assert ground.window.ping_due(101.5)
    if answered:
        ground.window.ping_answered(101.5)
    ground.now = 101.6
    late = ground.send("late")  # after the PING, so its answer says nothing
    ground.window.expire(105)
    for publish, said in ((early, answered), (late, False)):
        with pytest.raises(PublishTimeoutError) as caught:
            publish.outcome()
        assert ("the server answers PING, so the stream cannot store" in str(caught.value)) == said


def test_one_ping_serves_all_publishes_that_expire_soon() -> None:
    ground = Ground(ack_timeout=2.0)
    for number in range(5):
        ground.now = 100 + number / 10
        ground.send()
    assert ground.window.ping_due(101.5)
    assert not any(ground.window.ping_due(101.5 + number / 20) for number in range(10))
    assert ground.window.next_wakeup() == 102.0


def test_without_a_timeout_there_is_no_wakeup() -> None:
    ground = Ground(ack_timeout=None)
    assert ground.window.next_wakeup() is None
    publish = ground.send()
    assert ground.window.next_wakeup() is None
    assert not ground.window.ping_due(1e9)
    assert ground.window.expire(1e12) == []
    ground.answer(publish, header=NOBODY)
    assert ground.window.next_wakeup() == ground.now + 0.25


def test_all_publishes_in_flight_fail_with_the_session() -> None:
    ground = Ground()
    publishes = [ground.send() for _ in range(3)]
    frames = [publish._frame for publish in publishes]
    lost = DisconnectedError("gone")
    assert ground.window.fail(lost) == list(zip(publishes, frames, strict=True))
    assert {type(publish.failure()) for publish in publishes} == {DisconnectedError}
    assert ground.window.stats.failed == 3
    assert ground.window.fail(lost) == []


def test_a_forbidden_subject_fails_only_its_own_publishes() -> None:
    ground = Ground()
    good, bad = ground.send("good"), ground.send("bad")
    failed = ground.window.fail(DisconnectedError("forbidden"), "bad")
    assert [publish for publish, _ in failed] == [bad]
    assert not good.done()


def test_the_window_works_before_a_listener_is_set() -> None:
    window: PublishWindow[Publish] = PublishWindow("_IN", Publish, AsyncPublishOptions())
    publish = window.add("a", window.next_token(), b"", 0.0, None)
    window.notify_at = 0
    window.deliver(Message(b"_IN.1", b"", b"", WRONG, None))
    assert not publish.done()
    window.fail(DisconnectedError("gone"))


@pytest.mark.parametrize(
    ("tries", "left", "delay"),
    [(0, None, 0.25), (1, 5.0, 0.25), (2, None, None), (0, 0.25, None), (0, 0.26, 0.25)],
)
def test_retries_are_limited_by_number_and_time(tries: int, left: float | None, delay: float | None) -> None:
    assert RetryPolicy().delay(tries, left) == delay


@pytest.mark.parametrize(
    ("given", "text"), [({"max_pending": 0}, "max_pending"), ({"ack_timeout": 0.0}, "ack_timeout")]
)
def test_invalid_options_are_refused(given: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        AsyncPublishOptions(**given)  # type: ignore[arg-type]
