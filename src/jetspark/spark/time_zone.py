"""The time zone of the session, in a task.

Spark passes the settings of the session to each task. `spark.sql.session.timeZone` is among them only if someone has
set it. Otherwise Spark uses the time zone of the JVM, which a Python task does not know.
"""

from __future__ import annotations

from typing import Final

from pyspark import TaskContext

__all__ = ["session_time_zone"]

_SETTING: Final = "spark.sql.session.timeZone"


def session_time_zone() -> str | None:
    """Return the time zone of the session; None outside of a task, or if the session has no setting."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_SETTING)
