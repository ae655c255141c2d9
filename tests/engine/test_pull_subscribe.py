"""The fetch of ADR-13, event by event: its pulls and its result."""

from __future__ import annotations

import pytest

from jetspark.engine.pull_subscribe import (
    Action,
    DrainPull,
    Ended,
    Event,
    FetchOptions,
    LookedUp,
    LookUp,
    Messages,
    Pull,
    TimedOut,
    Wait,
    fetch,
)
from jetspark.errors import (
    ConfigError,
    ConsumerDeletedError,
    ConsumerUnavailableError,
    DisconnectedError,
    Error,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    PermissionsViolationError,
    PullLimitExceededError,
    RequestTimeoutError,
)
from jetspark.jetstream.api.pull import PullRequest
from jetspark.jetstream.errors import api_error
from jetspark.wire.headers import Status
from jetspark.wire.messages import Message

NO_MESSAGES, EXPIRED = Status(404, "No Messages"), Status(408, "Request Timeout")
BEAT, NOBODY = Status(100, "Idle Heartbeat"), Status(503, "")


def some(*numbers: int) -> Messages:
    return Messages([Message(b"a", b"", b"", b"%d" % number, None) for number in numbers])


class Play:
    """A fetch that a test drives by events."""

    def __init__(
        self, batch: int = 1, timeout: float | None = 5.0, heartbeat: float | None = None, held: int = 0
    ) -> None:
        self.now = 100.0
        self.got = list(some(*range(held)).messages)
        self.result: Error | None = None
        self.ended = False
        self.pulls: list[tuple[int, bool]] = []
        self.looked_up: list[str] = []
        self.action: Action | None = None
        options = FetchOptions("S", "c", batch, timeout, heartbeat)
        self._fetch = fetch(options, self.got, lambda: self.now)
        self._send(None)

    def _send(self, event: Event | None) -> None:
        try:
            self.action = self._fetch.send(event)
            while isinstance(self.action, Pull | LookUp):
                request = self.action.request
                if isinstance(request, PullRequest):
                    self.pulls.append((request.batch, request.no_wait))
                    self.last = request
                else:
                    self.looked_up.append(request.consumer)
                self.action = self._fetch.send(None)
        except StopIteration as end:
            self.result, self.ended = end.value, True

    def on(self, event: Event) -> Play:
        assert not self.ended
        self._send(event)
        return self

    @property
    def numbers(self) -> list[int]:
        return [int(message.payload) for message in self.got]

    @property
    def until(self) -> float | None:
        assert isinstance(self.action, Wait)
        return self.action.until


def test_a_single_message_is_one_pull_that_expires_a_little_before_the_callers_timeout() -> None:
    play = Play(1, 5.0)
    assert play.pulls == [(1, False)]
    assert play.last.expires is not None
    assert (play.last.expires.total_seconds(), play.until) == (4.9, 105.0)
    assert play.on(some(1)).ended
    assert (play.numbers, play.result) == ([1], None)


def test_the_margin_of_a_short_timeout_is_a_tenth() -> None:
    play = Play(1, 0.5)
    assert play.last.expires is not None
    assert play.last.expires.total_seconds() == 0.45


def test_a_batch_is_requested_without_waiting_first_and_ends_when_it_is_full() -> None:
    play = Play(3)
    assert play.pulls == [(3, True)]
    assert play.on(some(1, 2)).on(some(3)).ended
    assert (play.numbers, play.pulls) == ([1, 2, 3], [(3, True)])


def test_a_partly_filled_batch_is_returned_without_waiting_for_more() -> None:
    play = Play(3).on(some(1, 2)).on(NO_MESSAGES)
    assert (play.ended, play.numbers) == (True, [1, 2])


@pytest.mark.parametrize("status", [NO_MESSAGES, Status(408, "Requests Pending")])
def test_an_empty_subscription_waits_for_the_first_message_and_collects_those_that_follow(status: Status) -> None:
    play = Play(3).on(status)
    assert play.pulls == [(3, True), (3, False)]
    assert isinstance(play.on(some(1)).action, DrainPull)
    assert play.on(some(2)).ended
    assert play.numbers == [1, 2]


def test_kept_messages_come_first_and_fill_the_batch_or_are_completed_by_a_pull() -> None:
    assert Play(2, held=2).ended
    play = Play(5, held=2)
    assert play.pulls == [(3, True)]
    assert play.on(NO_MESSAGES).ended
    assert play.numbers == [0, 1]


def test_one_kept_message_is_enough_for_a_batch_of_one() -> None:
    assert Play(1, held=1).numbers == [0]


def test_the_end_of_the_pull_without_a_message_is_a_timeout() -> None:
    with pytest.raises(NoMessageError, match="5 s"):
        Play(1).on(EXPIRED)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_deadline_of_the_caller_is_a_timeout(batch: int) -> None:
    with pytest.raises(NoMessageError):
        Play(batch).on(TimedOut())


def test_silence_after_messages_ends_the_pull_and_collects_messages_in_flight() -> None:
    play = Play(3).on(some(1))
    assert play.until == 100.25
    assert play.on(TimedOut()).action == DrainPull(105.0)
    assert play.on(some(2)).ended
    assert play.numbers == [1, 2]


def test_a_deadline_after_messages_returns_them() -> None:
    play = Play(3, 0.2).on(some(1)).on(TimedOut())
    assert (play.ended, play.numbers) == (True, [1])


def test_no_second_pull_is_sent_without_time_left() -> None:
    play = Play(3, 1.0)
    play.now += 1.0
    with pytest.raises(NoMessageError):
        play.on(NO_MESSAGES)


def test_without_a_timeout_one_pull_follows_the_other() -> None:
    play = Play(1, None)
    assert play.last.expires is not None
    assert (play.last.expires.total_seconds(), play.until) == (30.0, None)
    play.now += 30
    play.on(EXPIRED)
    assert play.pulls == [(1, False), (1, False)]
    assert play.on(some(1)).ended


def test_a_pull_that_is_ended_at_once_is_not_repeated_at_once() -> None:
    play = Play(1, None)
    for number in range(1, 4):
        play.on(EXPIRED)
        assert (len(play.pulls), play.until) == (number, play.now + 0.5)
        play.now += 0.5
        play.on(TimedOut())
    assert len(play.pulls) == 4
    play.on(EXPIRED)
    assert play.on(some(1)).ended


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status(409, "Consumer Deleted"), ConsumerDeletedError),
        (Status(409, "Exceeded MaxRequestBatch of 2"), PullLimitExceededError),
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_an_error_status_is_raised_if_there_are_no_messages(status: Status, kind: type[Error], batch: int) -> None:
    with pytest.raises(kind):
        Play(batch).on(status)


def test_an_error_status_after_messages_is_kept_for_later() -> None:
    play = Play(3).on(some(1)).on(Status(409, "Leadership Change"))
    assert (play.ended, play.numbers) == (True, [1])
    assert isinstance(play.result, LeadershipChangeError)


def test_a_lost_session_is_raised_without_messages_and_otherwise_ends_the_fetch() -> None:
    lost = Ended(DisconnectedError("lost"))
    with pytest.raises(DisconnectedError):
        Play(1).on(lost)
    play = Play(3).on(some(1)).on(lost)
    assert (play.ended, play.numbers, play.result) == (True, [1], None)


def test_a_heartbeat_delays_the_end_by_missed_heartbeats() -> None:
    play = Play(1, 5.0, 0.5)
    assert play.until == 101.0
    play.now = 100.9
    assert play.on(BEAT).until == 101.9
    with pytest.raises(MissedHeartbeatError):
        play.on(TimedOut())


def test_silence_near_the_deadline_is_a_timeout() -> None:
    play = Play(1, 5.0, 0.5)
    play.now = 104.5
    assert play.on(BEAT).until == 105.0
    with pytest.raises(NoMessageError):
        play.on(TimedOut())


@pytest.mark.parametrize("arguments", [(0, 1.0), (1, 0.0), (1, -1.0), (1, 1.0, 0.5), (5, 1.0, 0.6), (1, None, 16.0)])
def test_invalid_options_are_refused(arguments: tuple[int, float | None, float]) -> None:
    with pytest.raises(ConfigError):
        FetchOptions("S", "c", *arguments)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (LookedUp(None), ConsumerUnavailableError),
        (LookedUp(RequestTimeoutError("silent")), ConsumerUnavailableError),
        (LookedUp(api_error(404, 10014, "consumer not found")), NoConsumerResponseError),
        (LookedUp(PermissionsViolationError("not allowed")), NoConsumerResponseError),
        (TimedOut(), ConsumerUnavailableError),
        (Ended(DisconnectedError("lost")), DisconnectedError),
    ],
)
def test_a_pull_that_nobody_answers_is_explained_by_a_look_up(batch: int, event: Event, kind: type[Error]) -> None:
    play = Play(batch).on(NOBODY)
    assert (play.looked_up, play.until) == (["c"], 105.0)
    with pytest.raises(kind) as caught:
        play.on(event)
    assert type(caught.value) is kind


def test_messages_of_an_earlier_fetch_end_a_look_up() -> None:
    play = Play(3).on(NOBODY).on(some(1))
    assert (play.ended, play.numbers, play.result) == (True, [1], None)


def test_a_pull_that_nobody_answers_after_messages_is_an_error_for_later() -> None:
    play = Play(3).on(some(1)).on(NOBODY)
    assert (play.ended, play.numbers, type(play.result)) == (True, [1], NoConsumerResponseError)
