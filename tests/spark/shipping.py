"""Files for a cluster: the wheel of jetspark, and interpreters with all packages of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
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
    installed
        The interpreter of another environment, in which the wheel is installed.
    """

    package: Path
    environment: Path
    archive: Path
    installed: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def installed_package(self) -> Path:
        """The file of the installed package by which it is known."""
        (found,) = self.installed.parents[1].glob("lib/python*/site-packages/jetspark/__init__.py")
        return found

    @staticmethod
    def made(folder: Path) -> Shipment:
        """Build and pack, without the network."""
        wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
        subprocess.run([*wheel, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120, capture_output=True)
        (built,) = folder.glob("jetspark-*.whl")
        package = built.rename(folder / "jetspark.zip")
        environment, installed = (_environment(folder / name) for name in ("environment", "installed"))
        with zipfile.ZipFile(package) as wheel_file:
            wheel_file.extractall(_packages(installed))
        archive = folder / "environment.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(environment, ".")
        return Shipment(package, environment, archive, installed / "bin" / "python")


def _packages(environment: Path) -> Path:
    """Return the folder of the packages of an environment."""
    return environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def _environment(folder: Path) -> Path:
    """Create a virtual environment with all packages of this one except jetspark, and return its folder."""
    venv.create(folder, symlinks=True, with_pip=False)
    for part in Path(sysconfig.get_path("purelib")).iterdir():
        if "jetspark" not in part.name:
            (_packages(folder) / part.name).symlink_to(part)
    return folder


def program_environment(home: Path, **variables: str) -> Mapping[str, str]:
    """Return the environment variables of a program that finds Spark there, and of Python only the given paths."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHONPATH"))}
    return {**inherited, "SPARK_HOME": str(home), "SPARK_CONF_DIR": str(home / "conf"), **variables}
