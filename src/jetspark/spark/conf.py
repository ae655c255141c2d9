"""Settings of a Spark session: they choose the interpreter, make the source faster, and hide its secret options."""

from __future__ import annotations

from pyspark.sql import SparkSession

from jetspark.spark.interpreter import configure_interpreter, is_spark_connect, settings_of
from jetspark.spark.options.table import OPTIONS
from jetspark.spark.parallelism import pass_cores

__all__ = ["configure", "recommended_conf"]


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Prepare a session that reads or writes JetStream, before Spark starts.

        spark = configure(SparkSession.builder.appName("orders")).getOrCreate()

    Applies `recommended_conf()`, and makes the running interpreter the Python of a local Spark. Spark otherwise runs
    `python3` from the path. That can be a Python without jetspark: an editor, cron or a notebook often calls the
    environment's `python` by its full path. The function sets the environment variable `PYSPARK_PYTHON` of this
    process. It does not change `PYSPARK_PYTHON`, `PYSPARK_DRIVER_PYTHON` or `spark.pyspark.python` if they are set.
    With a master that is not `local` it sets no interpreter, since executors have their own. With Spark Connect it
    changes nothing: the settings belong to the server.

    It also passes the number of cores to the source, as the default number of partitions, if settings of the builder
    name it: `local[4]`, `spark.default.parallelism`, `spark.executor.instances` with `spark.executor.cores`,
    `spark.cores.max`. So set these on the builder before. `register` asks a running Spark.

    Parameters
    ----------
    builder
        The builder of the session. Settings that are set on it later replace these.

    Raises
    ------
    ConfigError
        Spark already runs in this process, with a Python that may not have jetspark.
    """
    if is_spark_connect(builder):
        return builder
    configure_interpreter(builder)
    pass_cores(settings_of(builder))
    return builder.config(map={**recommended_conf()})


def recommended_conf() -> dict[str, str]:
    """Return the settings that we recommend for a session that reads or writes JetStream.

    - Unix domain sockets between the JVM and Python take about 35 ms off the fixed cost of every Python task.
    - Redaction hides the secret options, and addresses with a login, where Spark prints options: in the plans of reads
      and writes, and in the description of a table. By default, Spark hides only options with a name such as
      `password`. It cannot hide options in `CREATE TABLE` and `CREATE VIEW`: their plans show them.
    """
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.redaction.options.regex": _redaction_regex(),
    }


def _redaction_regex() -> str:
    """Return the pattern that Spark searches in names and values of options: `url` is its default, `@` ends a login."""
    return "(?i)url|@|" + "|".join(f"^{option.name}$" for option in OPTIONS if option.secret)
