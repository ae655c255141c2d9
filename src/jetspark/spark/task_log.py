"""The counts of a task in its log.

Spark collects the log records of its Python workers (`spark.sql.pyspark.worker.logging.enabled`). It leaves the level
at WARNING, and the level cannot be changed from outside of the worker. So the loggers of this package use INFO within
tasks, unless the user has chosen a level for them.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark import TaskContext

__all__ = ["log_counts"]

_package_logger: Final = logging.getLogger("jetspark.spark")


def log_counts(logger: logging.Logger, text: str, *values: object) -> None:
    """Log the counts of a task at level INFO."""
    if TaskContext.get() is not None and _package_logger.level == logging.NOTSET:
        _package_logger.setLevel(logging.INFO)
    logger.info(text, *values)
