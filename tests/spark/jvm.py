"""JVM options of the tests: JVMs live for a minute or less, so code is compiled quickly rather than well."""

from __future__ import annotations

from typing import Final

__all__ = ["LIGHT", "light_conf"]

LIGHT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def light_conf() -> dict[str, str]:
    """Set them for the driver, if Python or `spark-submit` starts it, and for the executors."""
    return {"spark.driver.extraJavaOptions": LIGHT, "spark.executor.extraJavaOptions": LIGHT}
