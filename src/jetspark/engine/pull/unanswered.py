"""The pulls of a fetch that nobody answers (503): is the consumer missing, or does JetStream not serve it now?"""

from __future__ import annotations

from jetspark.engine.server_health import is_sign_of_trouble
from jetspark.jetstream.errors import ConsumerUnavailableError, Error, NoConsumerResponseError

__all__ = ["UnansweredPulls", "unanswered_error"]


def unanswered_error(where: str, failure: Error | None) -> Error:
    """Return the error of a pull that nobody answers, after a look-up of its consumer.

    Parameters
    ----------
    where
        Description of the pull in errors.
    failure
        Error of the look-up; None if the consumer exists, or the look-up did not end in time.
    """
    if failure is not None and not is_sign_of_trouble(failure):  # it is gone, or this client may not look it up
        return NoConsumerResponseError(503, where=where)
    return ConsumerUnavailableError(503, where=where)


class UnansweredPulls:
    """The meaning of a look-up of the consumer for the fetch.

    Parameters
    ----------
    where
        Description of the fetch in errors.
    retry
        Whether to pull again for a consumer that may exist. Otherwise the fetch ends.
    limit
        Seconds for that.
    """

    def __init__(self, where: str, *, retry: bool, limit: float | None) -> None:
        self._where = where
        self._retry = retry
        self._limit = limit
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """Note that nobody answers a pull."""
        if self._since is None:
            self._since = now

    def end(self) -> None:
        """Note that the consumer answers."""
        self._since = None

    @property
    def error(self) -> Error | None:
        """The error of a fetch that times out now; None if the consumer has answered."""
        return None if self._since is None else unanswered_error(self._where, None)

    def end_of_fetch(self, now: float, failure: Error | None) -> Error | None:
        """Return the error that ends the fetch after a look-up, or None to pull again.

        Parameters
        ----------
        failure
            Error of the look-up; None if the consumer exists.
        """
        found = unanswered_error(self._where, failure)
        if not isinstance(found, ConsumerUnavailableError):
            return found
        expired = self._since is not None and self._limit is not None and now >= self._since + self._limit
        return self.error if expired or not self._retry else None
