"""Spark homes of the tests: like the installed one, but with a folder of ours for the files of Spark."""

from __future__ import annotations

from pathlib import Path

import pyspark

__all__ = ["spark_home"]


def spark_home(folder: Path, logging: str = "") -> Path:
    """Create a Spark home in a folder, unless it exists.

    It lacks the zip of pyspark that Spark puts before the installed package: every Python process would compile the
    modules in the zip again, which takes half a second each time.

    Parameters
    ----------
    logging
        Settings for the log of Spark.
    """
    home = folder / "home"
    if not home.exists():
        (home / "conf").mkdir(parents=True)
        if logging:
            (home / "conf" / "log4j2.properties").write_text(logging)
        for part in Path(pyspark.__file__).parent.iterdir():
            if part.name not in {"conf", "python"}:
                (home / part.name).symlink_to(part)
    return home
