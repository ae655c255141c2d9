"""Decides whether a batch read accepts Spark's filters.

Spark 4.1 to 4.3 stores the planned read of a DataFrame with the table, which all scans of the DataFrame share. So the
conditions of one scan also apply to later scans: after `df.where(...).count()`, `df.count()` counts the filtered rows.
A scan without conditions does not call a Python source, so the source cannot correct it. Spark 5.0 stores the planned
read with the scan (apache/spark#57752).
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql.datasource import DataSourceReader

__all__ = ["HAS_SHARED_PLAN_BUG", "accepts_filters"]

_log: Final = logging.getLogger(__name__)

HAS_SHARED_PLAN_BUG: Final = not hasattr(DataSourceReader, "pushLimit")
"""Whether this Spark has the bug. The change that fixed it also added `pushLimit`."""

_FILTERING_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_PUSHDOWN_CONF: Final = "spark.sql.python.filterPushdown.enabled"
_FAULT: Final = f"Spark {pyspark.__version__} shares a planned read, with its filters, between all scans of a DataFrame"


def accepts_filters(wanted: bool | None, has_shared_plan_bug: bool = HAS_SHARED_PLAN_BUG) -> bool:
    """Whether the reader that Spark plans with in this process accepts filters.

    Parameters
    ----------
    wanted
        The option `pushDownPredicate`; None if it is not given.
    has_shared_plan_bug
        Whether this Spark has the bug.

    Returns
    -------
    bool
        False if Spark pushes no filters down: it then refuses a reader that accepts them. Otherwise the option, which
        by default is true if the rows are always right. If Spark has the bug and its switch is on, one warning is
        logged for each application, and one more if the option is on.
    """
    if not _is_filtering_planner():
        return False
    if has_shared_plan_bug and _is_first_in_application(f"jetspark-push-down-{'taken' if wanted else 'left'}"):
        _warn(wanted)
    return not has_shared_plan_bug if wanted is None else wanted


def _is_filtering_planner() -> bool:
    """Whether Spark pushes filters down in this process.

    Spark's switch cannot be read from here. But if it is on, Spark plans a read with conditions in a separate process.
    """
    if _FILTERING_PLANNER in sys.modules:
        return True
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)  # if Spark runs it without its daemon
    return spec is not None and spec.name == _FILTERING_PLANNER


def _warn(wanted: bool | None) -> None:
    if wanted:
        _log.warning(
            "option pushDownPredicate: %s; the rows are right only if each query loads a DataFrame of its own and "
            "reads it once",
            _FAULT,
        )
    else:
        _log.warning(
            "%s is on, but the source leaves all filters to Spark: %s; to filter on the server, set the options "
            "subject, startingOffsets, startingTimestamp and their ends",
            _PUSHDOWN_CONF,
            _FAULT,
        )


def _is_first_in_application(name: str) -> bool:
    """Whether this is the first call with this name in the application. Every read is planned in a new process."""
    from pyspark import SparkFiles

    try:
        # Spark deletes the folder when the application ends.
        (Path(SparkFiles.getRootDirectory()) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    except (OSError, AssertionError):  # no such folder: a repeated warning is better than none
        return True
    return True
