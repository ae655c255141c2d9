"""The counts of a task in its log.

Spark collects what its Python workers log (`spark.sql.pyspark.worker.logging.enabled`), and leaves the level at
WARNING, which nobody can change from outside of the worker. So the loggers of this room take INFO within tasks, unless
somebody has chosen a level for them.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark import TaskContext

__all__ = ["log_counts"]

_package_logger: Final = logging.getLogger("jetspark.spark")


def log_counts(logger: logging.Logger, text: str, *values: object) -> None:
    """Write a line about what a task did."""
    if TaskContext.get() is not None and _package_logger.level == logging.NOTSET:
        _package_logger.setLevel(logging.INFO)
    logger.info(text, *values)
