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
_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+)\s*(?:,\s*\d+\s*)?\])?")


def cores_to_read_with() -> int:
    """Return the number that was passed on; without one, the number of cores of this machine."""
    return _positive(os.environ.get(_VARIABLE)) or os.cpu_count() or 1


def cores_of(settings: Mapping[str, Any]) -> int | None:
    """Return the number of cores that the settings of a session name; None if they name none.

    In a cluster these are the cores of all executors: their number times the cores of each one, if it is fixed, and
    `spark.cores.max` of a standalone cluster. It may have fewer, or not all of them at once.
    """
    for name in _SETTINGS:
        if found := _positive(settings.get(name)):
            return found
    master = str(settings.get("spark.master", "local[*]"))
    if (local := _LOCAL.fullmatch(master)) is not None:
        return _positive(local[1] or "1")
    if (cluster := _CLUSTER.fullmatch(master)) is not None:
        return _product(cluster[1], cluster[2])
    return None if master.startswith("local") else _cores_of_executors(settings)


def _cores_of_executors(settings: Mapping[str, Any]) -> int | None:
    limit = _positive(settings.get("spark.cores.max")) if str(settings["spark.master"]).startswith("spark:") else None
    executors = None
    if str(settings.get("spark.dynamicAllocation.enabled", "false")).lower() != "true":
        executors = _product(settings.get("spark.executor.instances"), settings.get("spark.executor.cores"))
    return min((found for found in (limit, executors) if found is not None), default=None)


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
    """Pass on the number of cores that a running Spark has to a source that is registered in the `with` block.

    Spark knows the executors that have started. If its settings name more cores, the others start later.
    """
    context = spark.sparkContext
    before = dict(context.environment)
    known = max(context.defaultParallelism, cores_of(dict(context.getConf().getAll())) or 0)
    cores = _positive(spark.conf.get(_SETTINGS[0], None)) or known
    context.environment[_VARIABLE] = str(cores)
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(before)


def _product(executors: object, cores: object) -> int | None:
    one, other = _positive(executors), _positive(cores)
    return None if one is None or other is None else one * other


def _positive(text: object) -> int | None:
    found = str(text)
    return int(found) if re.fullmatch(r"[0-9]{1,9}", found) and int(found) else None
