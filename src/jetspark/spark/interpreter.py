"""The Python that runs the source in Spark's processes.

The JVM of the driver looks for data sources with the Python that its environment names (`PYSPARK_DRIVER_PYTHON`,
`PYSPARK_PYTHON`), else with `python3` from its `PATH`. Its environment is fixed when it starts.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from jetspark.jetstream.errors import ConfigError

__all__ = ["configure_interpreter", "is_interpreter_configured", "is_spark_connect", "settings_of"]

_INTERPRETER_VARIABLES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_INTERPRETER_SETTINGS: Final = ("spark.pyspark.driver.python", "spark.pyspark.python")


def configure_interpreter(builder: SparkSession.Builder) -> None:
    """Make the running interpreter the Python of a local Spark, unless the user has chosen one.

    Raises
    ------
    ConfigError
        Spark already runs with `python3` from the `PATH`, and that is not the running interpreter.
    """
    options = settings_of(builder)
    local = str(options.get("spark.master", "local")).startswith("local")
    if (
        not local
        or is_interpreter_configured()
        or any(name in options for name in _INTERPRETER_SETTINGS)
        or _is_on_the_path()
    ):
        return
    jvm = SparkContext._jvm  # noqa: SLF001 - pyspark has no public way to ask whether the JVM runs
    if jvm is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    elif not any(jvm.java.lang.System.getenv(name) for name in _INTERPRETER_VARIABLES):
        raise ConfigError(
            "Spark already runs in this process, with python3 from the PATH instead of "
            f"{sys.executable}: call configure() before the first session, or jetspark.spark.register(spark) now"
        )


def is_spark_connect(builder: SparkSession.Builder) -> bool:
    """Whether a builder makes a session of Spark Connect, whose server has the JVM."""
    return "spark.remote" in settings_of(builder) or "SPARK_REMOTE" in os.environ


def is_interpreter_configured() -> bool:
    """Whether the environment of this process names a Python for Spark."""
    return any(os.environ.get(name) for name in _INTERPRETER_VARIABLES)


def settings_of(builder: SparkSession.Builder) -> dict[str, Any]:
    """Return the settings on a builder."""
    return builder._options  # noqa: SLF001 - a builder has no public way to read its settings


def _is_on_the_path() -> bool:
    """Whether `python3` is the running interpreter. In a virtual environment, both are in the same folder."""
    found = shutil.which("python3")
    return found is not None and Path(found).parent == Path(sys.executable).parent
