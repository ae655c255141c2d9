"""Settings of Spark that make a Python source fast, and keep its secrets."""

from __future__ import annotations

from jetspark.spark.option_table import OPTIONS

__all__ = ["recommended_conf"]


def recommended_conf() -> dict[str, str]:
    """Return the settings that we recommend for a session that reads or writes JetStream.

    - Unix domain sockets between the JVM and Python take about 35 ms off the fixed cost of every Python task.
    - Redaction hides our secret options, and addresses with a login, where Spark prints options: in the plan of a
      streaming query and in the description of a table. By itself Spark hides those whose name says so (`password`).
    """
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.redaction.options.regex": _redacted(),
    }


def _redacted() -> str:
    """What Spark looks for in names of options and in values: `url` is its own default, `@` stands behind a login."""
    return "(?i)url|@|" + "|".join(f"^{option.name}$" for option in OPTIONS if option.secret)
