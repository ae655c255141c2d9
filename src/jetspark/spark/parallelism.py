"""The number of cores with which Spark reads: the default number of partitions.

Spark does not tell it to a Python source. But the user's program can ask Spark, or knows the settings. So `configure`
and `register` pass it on, by an environment variable of the processes in which Spark plans.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["cores_of", "cores_to_read_with", "pass_cores", "with_cores_of"]

_VARIABLE: Final = "JETSPARK_CORES"
_SETTINGS: Final = ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism")
_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+)\s*(?:,\s*\d+\s*)?\])?")


def cores_to_read_with() -> int:
    """Return the number that was passed on; without one, the number of cores of this machine."""
    return _positive(os.environ.get(_VARIABLE)) or os.cpu_count() or 1


def cores_of(settings: Mapping[str, Any]) -> int | None:
    """Return the number of cores that the settings of a session name; None if they name none."""
    for name in _SETTINGS:
        if found := _positive(settings.get(name)):
            return found
    local = _LOCAL.fullmatch(str(settings.get("spark.master", "")))
    return None if local is None else _positive(local[1] or "1")


def pass_cores(settings: Mapping[str, Any]) -> None:
    """Pass on the number of cores before Spark starts. Afterwards, its environment is fixed."""
    if SparkContext._jvm is not None:  # noqa: SLF001 - pyspark has no public way to ask whether the JVM runs
        return
    cores = cores_of(settings)
    if cores is None:
        os.environ.pop(_VARIABLE, None)  # of an earlier session
    else:
        os.environ[_VARIABLE] = str(cores)


@contextmanager
def with_cores_of(spark: SparkSession) -> Iterator[None]:
    """Pass on the number of cores that a running Spark has to a source that is registered in the `with` block."""
    context = spark.sparkContext
    before = dict(context.environment)
    cores = _positive(spark.conf.get(_SETTINGS[0], None)) or context.defaultParallelism
    context.environment[_VARIABLE] = str(cores)
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(before)


def _positive(text: object) -> int | None:
    found = str(text)
    return int(found) if re.fullmatch(r"[0-9]{1,9}", found) and int(found) else None
