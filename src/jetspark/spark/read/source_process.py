"""The process of Spark that plans the micro-batches of a streaming query."""

from __future__ import annotations

import signal
import sys
from typing import Final

__all__ = ["exit_on_sigterm"]

_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"


def exit_on_sigterm() -> None:
    """Exit on SIGTERM, so that `stop` is called. Spark ends the source process by SIGTERM only."""
    runner = getattr(sys.modules.get("__main__"), "__spec__", None)
    if runner is None or runner.name != _MODULE or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def leave(number: int, frame: object) -> None:  # noqa: ARG001 - as `signal` calls it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the signal may come twice
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
