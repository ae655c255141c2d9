"""Spark homes of the tests: like the installed one, but what Spark writes and reads there is in a folder of ours."""

from __future__ import annotations

from pathlib import Path

import pyspark

__all__ = ["spark_home"]


def spark_home(folder: Path, logging: str = "") -> Path:
    """Make one in a folder, unless it is there.

    It lacks the zip of pyspark that Spark puts before the installed package: what stands in a zip is compiled anew by
    every Python process, which takes half a second of each.

    Parameters
    ----------
    logging
        Settings for Spark's log.
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
