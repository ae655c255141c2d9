"""How long to go on trying."""

from jetspark.engine.retry import ExponentialBackoff


def test_the_first_try_comes_at_once_and_the_delays_double_up_to_two_seconds() -> None:
    backoff = ExponentialBackoff(1000.0)
    delays = [backoff.next_delay(10.0) for _ in range(9)]
    assert delays == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert backoff.retries == 9


def test_no_time_means_no_second_try() -> None:
    backoff = ExponentialBackoff(0.0)
    assert backoff.next_delay(5.0) is None
    assert backoff.retries == 0


def test_it_ends_when_the_next_try_would_come_too_late() -> None:
    backoff = ExponentialBackoff(1.0)
    assert backoff.next_delay(100.0) == 0.0
    assert backoff.next_delay(100.94) == 0.05
    assert backoff.next_delay(100.95) is None


def test_a_success_starts_it_anew_and_the_tries_are_still_counted() -> None:
    backoff = ExponentialBackoff(1.0)
    assert [backoff.next_delay(0.0), backoff.next_delay(0.0)] == [0.0, 0.05]
    backoff.reset()
    assert [backoff.next_delay(50.0), backoff.next_delay(50.0)] == [0.0, 0.05]
    assert backoff.retries == 4
