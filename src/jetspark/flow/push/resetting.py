"""When an ordered subscription makes its next consumer, and which failures it goes on after (ORD-07, ORD-08)."""

from __future__ import annotations

from collections.abc import Callable
from random import random
from typing import Final

from jetspark.jetstream.errors import (
    DisconnectedError,
    Error,
    InsufficientResourcesError,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    JetStreamUnavailableError,
    RequestTimeoutError,
)

__all__ = ["TRY_TIMEOUT", "ResetBackoff", "is_passing"]

TRY_TIMEOUT: Final = 10.0
"""Seconds that one try may take."""

_FIRST_DELAY: Final = 1.0
_MOST_DELAY: Final = 10.0
_JITTER: Final = 0.25
_PASSING: Final = (
    DisconnectedError,
    InsufficientResourcesError,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    RequestTimeoutError,
)


def is_passing(error: Error) -> bool:
    """Whether making a consumer may work later: no answer, no leader, no resources, a server that is starting."""
    return isinstance(error, _PASSING) and not isinstance(error, JetStreamNotEnabledForAccountError)


class ResetBackoff:
    """The first try comes at once, the next ones after waits that double from 1 s to 10 s.

    A wait is up to a quarter shorter than that, by chance, so that readers who lost their consumers together do not all
    come back together, time after time (R14).

    Parameters
    ----------
    max_attempts
        Tries in a row, after which the subscription ends with the error; None goes on for ever.
    chance
        Gives a number from 0 to 1 for each wait.
    """

    def __init__(self, max_attempts: int | None = None, chance: Callable[[], float] = random) -> None:
        self._max_attempts = max_attempts
        self._chance = chance
        self._failures = 0

    def succeeded(self) -> None:
        """A consumer was made."""
        self._failures = 0

    def failed(self) -> float | None:
        """A try failed; returns the seconds to the next one, None when there is to be none."""
        self._failures += 1
        if self._max_attempts is not None and self._failures >= self._max_attempts:
            return None
        return min(_FIRST_DELAY * 2.0 ** (self._failures - 1), _MOST_DELAY) * (1 - _JITTER * self._chance())
