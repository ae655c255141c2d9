"""When to retry an operation, how long to wait before, and when to stop. The caller passes the time.

Whether an error is temporary is declared in the error tree, see `jetspark.wire.errors.Error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Final

from jetspark.jetstream.errors import ConfigError, Error, InsufficientResourcesError
from jetspark.jetstream.publish import RETRY_ATTEMPTS, RETRY_WAIT
from jetspark.wire.argument_types import check_fields, checks_arguments

__all__ = [
    "CREATE_TIMEOUT",
    "ExponentialBackoff",
    "RetryPolicy",
    "can_create_later",
    "can_resume",
    "create_backoff",
    "request_backoff",
]

CREATE_TIMEOUT: Final = 10.0
"""Timeout in seconds of one try to create the next consumer of an ordered reader."""


class ExponentialBackoff:
    """Delays of retries that double while no try succeeds.

    Parameters
    ----------
    shortest, longest
        First and longest delay, in seconds.
    immediate
        Whether there is one retry without a delay before the first delay.
    timeout
        Seconds from the first failure to the last try; 0 never retries.
    max_attempts
        Consecutive failed tries after which there is no retry.
    jitter
        Fraction by which a delay is shortened at most, at random. Clients that fail at the same time then do not retry
        at the same time (R14).
    chance
        Returns a number from 0 to 1 for each delay.
    """

    def __init__(
        self,
        shortest: float,
        longest: float,
        *,
        immediate: bool = False,
        timeout: float = math.inf,
        max_attempts: float = math.inf,
        jitter: float = 0.0,
        chance: Callable[[], float] = random,
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._immediate = immediate
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._chance = chance
        self.retries = 0
        """Total number of retries, over all series of failures."""
        self.reset()

    def reset(self) -> None:
        """End the series of failures, after a success."""
        self._failures = 0
        self._since: float | None = None
        self._delay = 0.0 if self._immediate else self._shortest

    def next_delay(self, now: float = 0.0) -> float | None:
        """Count a failure; return the seconds to wait before the next try, None for no further try.

        Only a backoff with a timeout needs the time.
        """
        if self._since is None:
            self._since = now
        self._failures += 1
        delay = self._delay
        if self._failures >= self._max_attempts or now + delay - self._since >= self._timeout:
            return None
        self._delay = min(max(2 * delay, self._shortest), self._longest)
        self.retries += 1
        return delay * (1 - self._jitter * self._chance())


def request_backoff(timeout: float) -> ExponentialBackoff:
    """Return the backoff of requests and bulk operations: one retry at once, then delays from 50 ms to 2 s."""
    return ExponentialBackoff(0.05, 2.0, immediate=True, timeout=timeout)


def create_backoff(max_attempts: int | None = None) -> ExponentialBackoff:
    """Return the backoff of creating an ordered reader's next consumer (ORD-08): delays from 1 s to 10 s.

    Raises ConfigError if `max_attempts` is not positive.
    """
    if max_attempts is not None and max_attempts < 1:
        raise ConfigError(f"max_reset_attempts must be positive, not {max_attempts}")
    return ExponentialBackoff(1.0, 10.0, max_attempts=math.inf if max_attempts is None else max_attempts, jitter=0.25)


def can_create_later(error: Error) -> bool:
    """Return whether creating an ordered reader's next consumer may succeed later (ORD-07)."""
    # Such a reader stays for long, and others free resources meanwhile. A publish or a bulk read reports at once that
    # the resources are used up, so this error is not transient for all.
    return error.transient or isinstance(error, InsufficientResourcesError)


def can_resume(error: Error) -> bool:
    """Return whether an operation that can open a new connection and consumer can resume after an error."""
    return error.transient or error.needs_recreation


@checks_arguments()
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of a publish that no stream answers (503): the stream may be in creation or in a leader election.

    Attributes
    ----------
    attempts
        Maximum number of retries (PUB-03).
    wait
        Seconds before each retry.
    """

    attempts: int = RETRY_ATTEMPTS
    wait: float = RETRY_WAIT

    def __post_init__(self) -> None:
        check_fields(self)

    def delay(self, retries: int, left: float | None) -> float | None:
        """Return the seconds until the next retry, None for no retry. `left` are the seconds until the timeout."""
        if retries >= self.attempts or (left is not None and left <= self.wait):
            return None
        return self.wait
