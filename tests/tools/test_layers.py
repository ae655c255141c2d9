"""What `make test` leaves to `make matrix`, and what happens when a case fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.conformance import ROOT

CASES = """
import pytest
from pathlib import Path

@pytest.fixture(params=["aio", "sync"])
def front(request): return request.param

@pytest.fixture(params=["default", "v2_domain"])
def profile(request): return request.param

def test_plain(front, profile): pass

@pytest.mark.blocking
def test_of_a_blocking_method(front, profile): pass

@pytest.mark.profiles
def test_of_subjects(front, profile): pass

@pytest.mark.parametrize("front", ["sync"], indirect=True)
def test_of_one_front(front, profile): pass

@pytest.mark.parametrize("profile", ["v2_domain"], indirect=True)
def test_of_one_profile(front, profile): pass

@pytest.mark.matrix
def test_long(): pass
"""
FAILING = """
import pytest

seen = set()

@pytest.mark.parametrize("number", range({count}))
def test_that_fails_once(number):
    first = number not in seen
    seen.add(number)
    assert not first
"""


def run_pytest(root: Path, room: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests in a folder of `tests`, with our plugin."""
    folder = root / "tests" / room
    folder.mkdir(parents=True)
    (folder / "test_cases.py").write_text(text)
    (root / "conftest.py").write_text('pytest_plugins = ("tests.layers",)\n')
    marks = "".join(f"    {mark}: a mark\n" for mark in ("matrix", "blocking", "profiles"))
    (root / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n{marks}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return subprocess.run(
        [*command, *arguments, str(folder)], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )


def test_each_behaviour_runs_once_and_what_differs_runs_more_often(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "api", CASES, "--collect-only", "-m", "not matrix")
    assert [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line] == [
        "test_plain[aio-default]",
        "test_of_a_blocking_method[aio-default]",
        "test_of_a_blocking_method[sync-default]",
        "test_of_subjects[aio-default]",
        "test_of_subjects[aio-v2_domain]",
        "test_of_one_front[default-sync]",
        "test_of_one_profile[aio-v2_domain]",
    ]


def test_a_case_on_a_server_that_fails_once_is_named_and_no_failure(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "api", FAILING.format(count=2))
    assert done.returncode == 0, done.stdout
    assert "cases that ran twice" in done.stdout
    assert "api/test_cases.py::test_that_fails_once[0]\n" in done.stdout
    assert "2 passed, 2 rerun" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_run_with_more_than_two_such_cases_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run_pytest(tmp_path, "api", FAILING.format(count=3), *workers)
    assert done.returncode == 1, done.stdout
    assert "3 cases ran twice; 2 may. The run has failed." in done.stdout


def test_a_case_without_io_never_runs_twice(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "driver", FAILING.format(count=1))
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    assert "rerun" not in done.stdout
