"""Counts the faults that the fast tests notice: it makes small changes, one at a time, and runs the tests for each.

    python -m tools.mutants                         the usual sample
    python -m tools.mutants wire=60 aio=5 --seed 3  another one

Every change is made in a copy of the sources, which is first on the path of the tests. The same seed and sources give
the same sample. Only tests that call the changed function run, the quickest first, until one fails or twenty seconds
are over.

Two libraries do this, too, and neither fits. mutmut 3 has no samples by seed, passes over decorated functions and what
is outside of functions, and changes texts. cosmic-ray changes the files of the tree itself, has no samples by seed,
and runs one command for every change, so that a change takes a minute here and not seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from tools.mutants.changes import Change, changes_of
from tools.mutants.choosing import CHOSEN, NOTES

ROOT: Final = Path(__file__).parents[2]
_BYTES: Final = 4 << 30
"""Memory for the tests of a mutant: one that never ends may fill all there is."""
_SECONDS: Final = 60
"""Time limit for the tests of a mutant, by their noted times. Without the notes they take at most a third of it."""


@dataclass(frozen=True)
class Room:
    """Sources, how many of their lines to change, the tests that may notice it, and what share has to be noticed."""

    sources: str
    count: int
    tests: tuple[str, ...]
    least: int
    """Per cent. A sample is small and moves with the sources, so this is some points below what we want."""


_ERRORS: Final = "tests/jetstream/test_errors.py"
"""Tests of all errors, also those of `wire`."""
ROOMS: Final = {
    "wire": Room("jetspark/wire", 20, ("tests/wire", _ERRORS, "tests/driver"), 85),
    "engine": Room("jetspark/engine", 20, ("tests/engine", "tests/driver"), 85),
    "jetstream": Room("jetspark/jetstream", 20, ("tests/jetstream", "tests/engine", "tests/driver"), 85),
    "aio": Room("jetspark/aio", 40, ("tests/driver",), 70),
}


@dataclass
class Outcome:
    """The outcome of the mutants of a room."""

    tried: int = 0
    survivors: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Per cent that were noticed."""
        return 100 * (1 - len(self.survivors) / self.tried) if self.tried else 100.0


def sample(folder: Path, room: str, count: int, seed: int) -> list[tuple[Path, Change]]:
    """Choose lines of the sources below a folder, and one change for each."""
    lines: dict[tuple[Path, int], list[Change]] = {}
    for path in sorted(folder.rglob("*.py")):
        for change in changes_of(path.read_text()):
            lines.setdefault((path, change.line), []).append(change)
    numbers = random.Random(f"{seed}:{room}")
    chosen = sorted(numbers.sample(list(lines), min(count, len(lines))))
    return [(path, numbers.choice(lines[path, line])) for path, line in chosen]


def _limit_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES if most == resource.RLIM_INFINITY else min(_BYTES, most), most))


class Run:
    """The tests on a copy of the sources."""

    def __init__(self, root: Path, rooms: dict[str, Room], scratch: Path, patience: float) -> None:
        self._root, self._rooms, self._scratch = root, rooms, scratch
        self.source = scratch / "src"
        shutil.copytree(root / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        folders = sorted({folder for room in rooms.values() for folder in room.tests})
        notes, self._patience = scratch / "notes.json", patience
        if self._pytest(folders, {NOTES: str(notes)}, 1800):
            raise SystemExit("The tests fail without any change, too.")
        noted = json.loads(notes.read_text()).items()
        self._calls = {test: {(Path(file), line) for file, line in called} for test, (_, called) in noted}
        self._seconds = {test: seconds for test, (seconds, _) in noted}

    def _pytest(self, arguments: Sequence[str], settings: dict[str, str], patience: float) -> bool:
        """Tell whether the tests fail; those that do not end do."""
        path = os.pathsep.join([str(self.source), str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tools.mutants.choosing", "-p", "no:cacheprovider"]
        environment = os.environ | settings | {"PYTHONPATH": path}
        with (
            (self._scratch / "output").open("w") as output,
            subprocess.Popen(
                [*command, *arguments],
                cwd=self._root,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_limit_memory if sys.platform == "linux" else None,
            ) as process,
        ):
            try:
                return process.wait(patience) != 0
            except subprocess.TimeoutExpired:
                return True
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def _chosen(self, room: Room, path: Path, change: Change) -> list[str]:
        """Return the tests that call a function, or for what runs with the import all tests of the room."""
        tests = [test for test in sorted(self._calls, key=self._seconds.__getitem__) if test.startswith(room.tests)]
        if change.function is not None:
            tests = [test for test in tests if (path, change.function) in self._calls[test]]
        else:
            tests.sort(key=lambda test: all(file != path for file, _ in self._calls[test]))
        sums = itertools.accumulate(self._seconds[test] for test in tests)
        return [test for test, seconds in zip(tests, sums, strict=True) if seconds < _SECONDS]

    def notices(self, room: Room, path: Path, change: Change) -> bool:
        """Tell whether a test notices a change."""
        tests = self._chosen(room, path, change)
        if not tests:
            return False
        source, chosen = path.read_text(), self._scratch / "chosen.json"
        chosen.write_text(json.dumps(tests))
        try:
            self._write(path, change.apply(source))
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            patience = self._patience + 2 * sum(self._seconds[test] for test in tests)
            return self._pytest(list(files), {CHOSEN: str(chosen)}, patience)
        finally:
            self._write(path, source)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        """Write a source; the compiled form is known by second and size only, and has to go."""
        path.write_text(text)
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def room(self, name: str, seed: int) -> Iterator[tuple[str, bool]]:
        """Try the changes of a room: yield what each one is, and whether it was noticed."""
        room = self._rooms[name]
        for path, change in sample(self.source / room.sources, name, room.count, seed):
            shown = change.shown(path.read_text())
            yield f"src/{path.relative_to(self.source)}:{change.line}\n{shown}", self.notices(room, path, change)


def run(root: Path, rooms: dict[str, Room], seed: int, patience: float = 30.0) -> dict[str, Outcome]:
    """Try the sample of every room, and print what survives.

    A mutant hangs when its tests take `patience` seconds more than twice what they take without a change.
    """
    outcomes = {name: Outcome() for name in rooms}
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tests = Run(root, rooms, Path(scratch).resolve(), patience)
        for name, outcome in outcomes.items():
            for shown, noticed in tests.room(name, seed):
                outcome.tried += 1
                if not noticed:
                    outcome.survivors.append(shown)
                    print(f"survived: {shown}", flush=True)
    return outcomes


def main() -> int:
    """Run, and fail for a room of which the tests notice too little."""
    parser = argparse.ArgumentParser(prog="tools.mutants", description="Counts the faults that the fast tests notice.")
    parser.add_argument(
        "counts", nargs="*", metavar="ROOM=COUNT", help="how many lines to change; the usual rooms else"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the copy of the sources goes in that case, too
    counts = dict(each.split("=") for each in arguments.counts) or {name: room.count for name, room in ROOMS.items()}
    rooms = {n: Room(r.sources, int(counts[n]), r.tests, r.least) for n, r in ROOMS.items() if n in counts}
    outcomes = run(ROOT, rooms, arguments.seed)
    print(f"{'room':<10} {'tried':>6} {'noticed':>8} {'survived':>9} {'share':>6}")
    for name, each in outcomes.items():
        left = len(each.survivors)
        print(f"{name:<10} {each.tried:>6} {each.tried - left:>8} {left:>9} {each.share:>5.0f}%")
    return int(any(each.share < rooms[name].least for name, each in outcomes.items()))


if __name__ == "__main__":
    sys.exit(main())
