"""When an ordered subscription creates its next consumer, and after which failures it retries (ORD-07, ORD-08)."""

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

__all__ = ["CREATE_TIMEOUT", "ResetBackoff", "is_transient"]

CREATE_TIMEOUT: Final = 10.0
"""Timeout of one try in seconds."""

_FIRST_DELAY: Final = 1.0
_MAX_DELAY: Final = 10.0
_JITTER: Final = 0.25
_TRANSIENT: Final = (
    DisconnectedError,
    InsufficientResourcesError,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    RequestTimeoutError,
)


def is_transient(error: Error) -> bool:
    """Return whether creating a consumer may work later: no answer, no leader, no resources, a starting server."""
    return isinstance(error, _TRANSIENT) and not isinstance(error, JetStreamNotEnabledForAccountError)


class ResetBackoff:
    """Waits between tries: the first try has no wait, then the wait doubles from 1 s to 10 s.

    Each wait is shortened at random by up to a quarter, so that readers that lost their consumers at the same time do
    not retry at the same time (R14).

    Parameters
    ----------
    max_attempts
        Consecutive tries after which the subscription ends with the error; None has no limit.
    chance
        Returns a number from 0 to 1 for each wait.
    """

    def __init__(self, max_attempts: int | None = None, chance: Callable[[], float] = random) -> None:
        self._max_attempts = max_attempts
        self._chance = chance
        self._failures = 0

    def succeeded(self) -> None:
        """Reset the wait, as a consumer was created."""
        self._failures = 0

    def failed(self) -> float | None:
        """Count a failed try; return the seconds until the next one, None for no further try."""
        self._failures += 1
        if self._max_attempts is not None and self._failures >= self._max_attempts:
            return None
        return min(_FIRST_DELAY * 2.0 ** (self._failures - 1), _MAX_DELAY) * (1 - _JITTER * self._chance())
