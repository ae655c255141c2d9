"""Files for a cluster: the wheel of jetspark, and an interpreter with all packages of this one except jetspark."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Shipment", "program_environment"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Shipment:
    """The files for a cluster; see the module.

    Attributes
    ----------
    package
        The wheel, with the ending that Spark accepts on the path of the workers.
    environment
        A virtual environment. Its packages are links to ours, to save time.
    archive
        The environment as an archive.
    """

    package: Path
    environment: Path
    archive: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @staticmethod
    def made(folder: Path) -> Shipment:
        """Build and pack, without the network."""
        wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
        subprocess.run([*wheel, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120, capture_output=True)
        (built,) = folder.glob("jetspark-*.whl")
        package = built.rename(folder / "jetspark.zip")
        environment = folder / "environment"
        venv.create(environment, symlinks=True, with_pip=False)
        ours = Path(sysconfig.get_path("purelib"))
        theirs = environment / ours.relative_to(sys.prefix)
        for part in ours.iterdir():
            if "jetspark" not in part.name:
                (theirs / part.name).symlink_to(part)
        archive = folder / "environment.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(environment, ".")
        return Shipment(package, environment, archive)


def program_environment(home: Path, **variables: str) -> Mapping[str, str]:
    """Return the environment variables of a program that finds Spark there, and of Python only the given paths."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHONPATH"))}
    return {**inherited, "SPARK_HOME": str(home), "SPARK_CONF_DIR": str(home / "conf"), **variables}
