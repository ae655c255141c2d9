"""The peers' environments: `.venv-peers` and `.venv-peers-spark`, made by the bench itself when a figure needs them.

The peers are not among the project's dependencies, and two of them want a newer Python than the project does, so they
live apart: in a virtual environment of the newest Python that is found, and, for the Spark source over nats-py, in a
plain folder on the path of Spark's workers. Both come from lock files with hashes and are made once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.run import Run

ROOT = Path(__file__).parent.parent
PEERS = ROOT / "bench" / "peers"
VERSIONS = ((3, 14), (3, 13), (3, 12), (3, 11))
"""Python versions that the lock file serves, the best first."""


@dataclass(frozen=True)
class Interpreter:
    """A Python to run peers with."""

    path: Path
    version: tuple[int, int]


@contextlib.contextmanager
def peers_environment(_: Run) -> Iterator[Interpreter]:
    """The virtual environment in which every peer is installed that its Python can run.

    Raises:
        Unavailable: no Python, or the installation failed.
    """
    found = newest_python()
    home = ROOT / ".venv-peers"
    lock = PEERS / "requirements.lock"
    python = Interpreter(home / "bin" / "python", found.version)
    stamp = _Stamp(home / ".ready", f"{found.path} {found.version} {_digest(lock)}")
    if not stamp.matches():
        _run([found.path, "-m", "venv", "--clear", home], "make the peers' environment")
        _install([python.path, "-m", "pip"], lock, [])
        stamp.write()
    yield python


@contextlib.contextmanager
def spark_packages(_: Run) -> Iterator[list[Path]]:
    """Folders to put on the path of Spark's workers, so that the source over nats-py can be imported.

    Raises:
        Unavailable: the installation failed.
    """
    home = ROOT / ".venv-peers-spark"
    lock = PEERS / "spark" / "requirements.lock"
    stamp = _Stamp(home / ".ready", _digest(lock))
    if not stamp.matches():
        shutil.rmtree(home, ignore_errors=True)
        _install([sys.executable, "-m", "pip"], lock, ["--no-deps", "--target", home])
        stamp.write()
    yield [home, PEERS / "spark"]


def newest_python() -> Interpreter:
    """The newest Python of `VERSIONS` on the path or among pyenv's versions.

    Raises:
        Unavailable: there is none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for major, minor in VERSIONS:
        named = shutil.which(f"python{major}.{minor}")
        installed = sorted(pyenv.glob(f"{major}.{minor}*/bin/python{major}.{minor}"), reverse=True)
        for candidate in [*([Path(named)] if named else []), *installed, Path(sys.executable)]:
            if _version(candidate) == (major, minor):
                return Interpreter(candidate, (major, minor))
    raise Unavailable("no Python from 3.11 to 3.14 was found for the peers")


def _version(python: Path) -> tuple[int, int] | None:
    """The version of an interpreter that can make environments; None when it does not run (pyenv's shims may not)."""
    script = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def _install(pip: Sequence[str | Path], lock: Path, options: Sequence[str | Path]) -> None:
    flags: list[str | Path] = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement", lock]
    _run([*pip, "install", *flags, *options], f"install {lock.relative_to(ROOT)}")


def _run(command: Sequence[str | Path], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"could not {what}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Unavailable(f"could not {what}: {last}")


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Stamp:
    """A file that says from what an environment was made; written last, so a half-made one is made again."""

    path: Path
    content: str

    def matches(self) -> bool:
        return self.path.is_file() and self.path.read_text(encoding="utf-8") == self.content

    def write(self) -> None:
        self.path.write_text(self.content, encoding="utf-8")
