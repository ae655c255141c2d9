"""Reports of losses: each once, although Spark asks repeatedly."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.range_reader import report_loss
from jetspark.spark.streams.ranges import Loss

__all__ = ["LossReports"]

_MAX_LOSSES: Final = 2
"""Maximum losses of a stream at one offset: messages before its first one, and those that its consumer lost."""


class LossReports:
    """Reports the losses of a query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._reported: dict[str, list[str]] = {}

    def report(self, losses: Iterable[Loss]) -> None:
        """Report losses that were not reported before. Raises DataLossError if the options say so."""
        for loss in losses:
            reported = self._reported.setdefault(loss.stream, [])
            if str(loss) not in reported:
                reported[:] = [*reported[1 - _MAX_LOSSES :], str(loss)]
                report_loss(loss, self._options)

    def keep(self, streams: Collection[str]) -> None:
        """Forget the reports of other streams."""
        for stream in self._reported.keys() - set(streams):
            del self._reported[stream]
