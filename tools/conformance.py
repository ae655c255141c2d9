"""Say which requirements of the JetStream design documents are shown by a test, and whether it passes.

    python tools/conformance.py                                          run the tests, one line for each requirement
    python tools/conformance.py --list                                   do not run them: `tested` or `not written`
    python tools/conformance.py --list --markdown docs/conformance.md    write the table of the documentation

The requirements are listed in `tests/conformance_ids.txt`; tests name theirs by `@pytest.mark.conformance("ACK-04")`.
pytest runs in a process of its own and writes the outcomes, test by test, into a file (`tests/conformance_plugin.py`).
Its own output goes to standard error. The exit code is 1 when a requirement failed, 2 when the tests could not be run.
With `--list` the marks are read from the source of the tests.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

__all__ = ["Outcomes", "Requirement", "State", "collect", "markdown", "read_requirements", "state_of"]

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ROOT / "tests"
IDS: Final = TESTS / "conformance_ids.txt"
MARK: Final = "conformance"
REPORT_OPTION: Final = "--conformance-report"
_LINE: Final = re.compile(r"([A-Z]{3}-\d{2})\s+(\S.*)")

Outcomes = Mapping[str, Mapping[str, str]]
"""By requirement and test: `passed`, `failed`, `skipped`, or empty for a test that was not run."""


class State(Enum):
    """The facts about a requirement."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_WRITTEN = "not written"
    TESTED = "tested"
    """There is a test, which was not run."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the list."""

    id: str
    title: str
    section: str


def read_requirements(path: Path = IDS) -> list[Requirement]:
    """Read the list. Raises ValueError for a line that is none, and for an id that comes twice."""
    requirements: dict[str, Requirement] = {}
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            section = line[3:].strip()
        elif line.strip() and not line.startswith("#"):
            found = _LINE.fullmatch(line.rstrip())
            if found is None or found[1] in requirements:
                raise ValueError(f"{path.name}, line {number}: {'an id twice' if found else 'no id and title'}: {line}")
            requirements[found[1]] = Requirement(found[1], found[2], section)
    return list(requirements.values())


def state_of(outcomes: Mapping[str, str]) -> State:
    """Return the state of a requirement by the outcomes of its tests. A test that was skipped shows nothing."""
    values = set(outcomes.values())
    if "failed" in values:
        return State.FAILED
    if "passed" in values:
        return State.PASSED
    return State.TESTED if "" in values else State.NOT_WRITTEN


def run_tests(*arguments: str) -> tuple[int, Outcomes]:
    """Run pytest on the marked tests; returns its exit code and what it reported.

    Raises
    ------
    RuntimeError
        It ended without a report.
    """
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        options = ("-q", "--matrix", "-m", MARK, f"{REPORT_OPTION}={report}")
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        # Its output is for people who watch; standard output is the table.
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
        if not report.exists():
            raise RuntimeError(f"pytest ended with exit code {done.returncode} before it ran a test")
        outcomes: Outcomes = json.loads(report.read_text(encoding="utf-8"))
        return done.returncode, outcomes


def collect(tests: Path = TESTS) -> Outcomes:
    """Return the files that have marks, by requirement; the tests are neither imported nor run."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if f".{MARK}(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARK:
                for name in node.args:
                    found.setdefault(ast.literal_eval(name), {})[path.name] = ""
    return found


def markdown(requirements: Sequence[Requirement], tested: frozenset[str]) -> str:
    """Return the page of the documentation: counts by section, and every requirement with whether a test shows it."""
    sections: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        sections.setdefault(requirement.section, []).append(requirement)
    lines = [
        "# Conformance",
        "",
        "The JetStream design documents (ADRs) require certain behaviour of a client. This page lists the requirements",
        "and says whether a test of jetspark covers each of them on a real nats-server. `make test` runs these tests.",
        "`make conformance` prints the outcome for each requirement.",
        "",
        "<!-- Written by: python tools/conformance.py --list --markdown docs/conformance.md -->",
        "",
        "| Section | Requirements | Tested |",
        "|---|---:|---:|",
    ]
    for section, members in sections.items():
        lines.append(f"| {section} | {len(members)} | {sum(each.id in tested for each in members)} |")
    lines.append(f"| **All** | **{len(requirements)}** | **{len(tested)}** |")
    for section, members in sections.items():
        lines += ["", f"## {section}", "", "| Id | Requirement | Tested |", "|---|---|---|"]
        lines += [f"| {each.id} | {each.title} | {'yes' if each.id in tested else ''} |" for each in members]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the lines and the counts; returns the exit code."""
    parser = argparse.ArgumentParser(description="Which requirements of the design documents a test shows.")
    parser.add_argument("--list", action="store_true", help="do not run the tests")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table of the documentation, too")
    options = parser.parse_args(arguments)
    requirements = read_requirements()
    try:
        code, outcomes = (0, collect()) if options.list else run_tests()
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    states = {each.id: state_of(outcomes.get(each.id, {})) for each in requirements}
    if not options.list:  # a test that was to run and did not has shown nothing good
        states = {name: State.FAILED if state is State.TESTED else state for name, state in states.items()}
    sys.stdout.writelines(f"{each.id} {states[each.id].value}\n" for each in requirements)
    counted = (State.TESTED, State.NOT_WRITTEN) if options.list else (State.PASSED, State.FAILED, State.NOT_WRITTEN)
    sys.stdout.write(", ".join(f"{list(states.values()).count(each)} {each.value}" for each in counted) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(requirements, frozenset(outcomes)), encoding="utf-8")
    if State.FAILED in states.values():
        return 1
    return 0 if code in {0, 5} else 2


if __name__ == "__main__":
    raise SystemExit(main())
