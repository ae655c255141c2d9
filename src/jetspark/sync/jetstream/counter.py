"""The handle of a stream of counters (ADR-49).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.counter`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jetspark.aio.jetstream import counter as aio
from jetspark.jetstream.counter import CounterValue
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Counter"]


@checks_arguments()
class Counter(LoopProxy):
    """The counters of a stream, one for each subject. Created by `JetStream.counter`.

        js.create_stream(name="VISITS", subjects=["visits.*"], allow_msg_counter=True, allow_direct=True)
        visits = js.counter("VISITS")
        total = visits.add("visits.home", 1)

    Values are whole numbers of any size. In all calls, `timeout` is in seconds, and None takes `timeout` of the
    context.
    """

    _inner: aio.Counter

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._inner.stream_name

    def add(self, subject: str, increment: int, *, timeout: float | None = None) -> int:
        """Add to a counter, or begin one; return the new value.

        If the session is lost, or no answer comes in half of the time, the addition is repeated once, with the same
        message id, so that it counts once.

        Parameters
        ----------
        increment
            The number to add; it may be negative.

        Raises
        ------
        BadSubjectError
            The subject is not literal, or not one of the stream. Nothing was added.
        CounterError
            The server refuses (10168 to 10172).
        PublishTimeoutError, DisconnectedError
            No answer came, twice. Whether it counts is not known.
        """
        return self._call(self._inner.add(subject, increment, timeout=timeout))

    def get(self, subject: str, *, default: int | None = None, timeout: float | None = None) -> CounterValue:
        """Return the value of a counter. Any replica may answer, and the last additions may be missing there.

        Parameters
        ----------
        default
            Value of a counter to which nothing was added; its `sequence` is 0. None raises CounterNotFoundError.

        Raises
        ------
        CounterNotFoundError
            Nothing was added to it.
        BadCounterError
            The message is no value of a counter.
        """
        return self._call(self._inner.get(subject, default=default, timeout=timeout))

    def get_many(self, subjects: str | Sequence[str] = ">", *, timeout: float | None = None) -> dict[str, CounterValue]:
        """Return the values of many counters, as they are at one moment; missing ones are left out.

        Parameters
        ----------
        subjects
            Subjects; wildcards are allowed.

        Raises
        ------
        TooManyResultsError
            More than 1,024 counters match.
        """
        return self._call(self._inner.get_many(subjects, timeout=timeout))

    def history(self, subject: str, *, timeout: float | None = None) -> list[CounterValue]:
        """Return all values of a counter that are kept, oldest first; empty if there is none."""
        return self._call(self._inner.history(subject, timeout=timeout))

    def reset(self, subject: str, *, timeout: float | None = None) -> None:
        """Set a counter to zero by an addition, so that streams that aggregate it follow; then delete its history.

        An addition at the same time counts from zero.

        Raises
        ------
        CounterNotFoundError
            Nothing was added to it.
        """
        self._call(self._inner.reset(subject, timeout=timeout))
