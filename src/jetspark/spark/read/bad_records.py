"""Payloads that a task cannot decode: they are counted, and the count is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from jetspark.payload.modes import ParseMode
from jetspark.spark.options.payload import PayloadOptions
from jetspark.spark.read.dead_letters import ReadDeadLetters
from jetspark.spark.task_log import log_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["BadRecords"]

_log: Final = logging.getLogger(__name__)

_OUTCOMES: Final = {
    ParseMode.PERMISSIVE: "kept, with null where nothing could be read",
    ParseMode.DROPMALFORMED: "left out",
}


class BadRecords:
    """The bad records of a task.

    Parameters
    ----------
    payload
        Options of the payloads.
    place
        Where the messages are, for the log.
    letters
        Where they are published; None if they are not.
    """

    def __init__(self, payload: PayloadOptions, place: str, letters: ReadDeadLetters | None = None) -> None:
        self._payload = payload
        self._place = place
        self._letters = letters
        self._count = 0

    def add(self, records: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Take bad records.

        Parameters
        ----------
        records
            Their `subject`, `sequence`, `data` and, for dead letters, `headers`.
        reasons
            The fault of each.

        Raises
        ------
        TooManyDeadLettersError, PublishRefusedError, DisconnectedError, ...
            They cannot be published as dead letters.
        """
        if not self._count:
            sequence, subject = records.column("sequence")[0].as_py(), records.column("subject")[0].as_py()
            _log.warning(
                "%s: sequence %d, subject %s: %s; the number of such payloads follows at the end of the task",
                self._place,
                sequence,
                subject,
                reasons[0],
            )
        self._count += len(reasons)
        if self._letters is not None:
            self._letters.publish(records, reasons)

    def log(self) -> None:
        """Log the number of bad records."""
        outcome = _OUTCOMES.get(self._payload.mode, "")
        if self._letters is not None:
            outcome = f"published as dead letters to {self._letters.subject}, and {outcome}"
        log_counts(
            _log,
            "%s: %d payloads could not be decoded as %s%s",
            self._place,
            self._count,
            self._payload.format,
            f"; they were {outcome}" if self._count else "",
        )
