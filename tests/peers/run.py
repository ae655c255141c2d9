"""Runs the public JetStream test suite of nats-py with jetspark.

    python -m tests.peers.run [--suite PATH] [-k EXPRESSION]

PATH is a checkout of nats-io/nats.py, or its directory `nats`; without one, the sources of the release are fetched. The
suite is not part of this repository. It starts servers on port 4222, one after the other, and its timeouts are short:
on a busy machine some of its tests fail because they are too slow.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from tests.peers.left_out import LEFT_OUT

from jetspark.server.binary import find_binary

RELEASE: Final = "https://github.com/nats-io/nats.py/archive/refs/tags/v2.16.0.tar.gz"
SUITE: Final = "tests/test_js.py"
SHIM: Final = Path(__file__).with_name("shim")


def fetch(target: Path) -> Path:
    """Fetch the sources of the release; returns the directory that holds its `tests`."""
    archive = target / "nats.py.tar.gz"
    with urllib.request.urlopen(RELEASE, timeout=60) as answer:
        archive.write_bytes(answer.read())
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    return find(target)


def find(root: Path) -> Path:
    """The directory that holds `tests/test_js.py`."""
    found = sorted(root.rglob(SUITE))
    if not found:
        raise SystemExit(f"there is no {SUITE} below {root}")
    return found[0].parents[1]


def tests_of(suite: Path) -> dict[str, list[str]]:
    """The tests of each class of the suite."""
    tree = ast.parse((suite / SUITE).read_text(encoding="utf-8"))
    return {
        each.name: [
            part.name
            for part in each.body
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith("test")
        ]
        for each in tree.body
        if isinstance(each, ast.ClassDef)
    }


def selected(suite: Path) -> list[str]:
    """Return the arguments of pytest. A test that is left out by name would exclude all names with the same start."""
    names = (f"{name}::{test}" for name, tests in tests_of(suite).items() for test in tests)
    return [f"{SUITE}::{name}" for name in names if name not in LEFT_OUT]


def run(suite: Path, arguments: list[str]) -> int:
    """Run the suite in its own process, with the shim in place of nats-py."""
    binary = find_binary()
    with tempfile.TemporaryDirectory() as names:
        Path(names, "nats-server").symlink_to(binary)
        paths = os.pathsep.join([names, os.environ["PATH"]])
        sources = Path(__file__).parents[2] / "src"
        environment = {**os.environ, "PATH": paths, "PYTHONPATH": os.pathsep.join([str(SHIM), str(sources)])}
        command = [sys.executable, "-m", "pytest", *selected(suite), "-q", "-p", "no:cacheprovider"]
        command += [
            "-p",
            "no:hypothesispytest",
            "--rootdir=.",
            "-c",
            os.devnull,
            "-W",
            "ignore",
            *arguments,
        ]
        return subprocess.run(command, cwd=suite, env=environment, check=False).returncode


def main() -> int:
    """Fetch the suite if need be, and run it."""
    parser = argparse.ArgumentParser(description="Run nats-py's public JetStream suite against jetspark.")
    parser.add_argument("--suite", type=Path, help="where it is; fetched when not given")
    options, rest = parser.parse_known_args()
    if options.suite is not None:
        return run(find(options.suite.resolve()), rest)
    with tempfile.TemporaryDirectory() as target:
        return run(fetch(Path(target)), rest)


if __name__ == "__main__":
    sys.exit(main())
