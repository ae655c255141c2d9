"""When a request of the JetStream API that the server has refused is sent again. The caller passes the time."""

from __future__ import annotations

from jetspark.jetstream.api.base import Request
from jetspark.jetstream.errors import APIError

__all__ = ["RequestRetry"]


class RequestRetry:
    """The tries of one request, until a deadline (`Request.retry_delay`).

    Attributes
    ----------
    left
        Timeout of the next try, in seconds.
    """

    def __init__(self, request: Request[object], timeout: float, now: float) -> None:
        self.left = timeout
        self._request = request
        self._deadline = now + timeout
        self._tries = 0
        self._refusal: APIError | None = None

    def delay(self, refusal: APIError, now: float) -> float | None:
        """Handle a refusal: return the seconds to wait before the next try, None if there is none."""
        self._tries += 1
        pause = self._request.retry_delay(refusal, self._tries)
        if pause is None or (left := self._deadline - now - pause) <= 0:
            return None
        self.left = left
        self._refusal = refusal.with_traceback(None)  # the traceback would hold the caller's frame
        return pause

    def on_silence(self) -> None:
        """Handle a try without an answer: raise the refusal that came before, if the request only reads."""
        if self._refusal is not None and self._request.idempotent:
            raise self._pop_refusal() from None

    def _pop_refusal(self) -> APIError:
        """Return the refusal, and do not hold it: it is raised, and then its traceback holds this object."""
        refusal, self._refusal = self._refusal, None
        assert refusal is not None
        return refusal
