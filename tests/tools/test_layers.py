"""The tests that `make test` leaves to `make matrix`, and the handling of failed cases."""

from __future__ import annotations

import pytest
from tests.layers import order_files
from tools.conformance import ROOT

pytest_plugins = ("pytester",)

CASES = """
import pytest

@pytest.fixture
def front(request): return request.param

@pytest.fixture
def profile(request): return request.param

def test_plain(front, profile): pass

@pytest.mark.blocking
def test_of_a_blocking_method(front, profile): pass

@pytest.mark.profiles
def test_of_subjects(front, profile): pass

@pytest.mark.blocking
@pytest.mark.profiles
def test_of_both(front, profile): pass

@pytest.mark.parametrize("front", ["sync"], indirect=True)
def test_of_one_front(front, profile): pass

@pytest.mark.parametrize(("profile", "number"), [("v2_domain", 1)], indirect=["profile"])
def test_of_one_profile(front, profile, number): pass

def test_of_fronts_only(front): pass

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


def run_pytest(pytester: pytest.Pytester, room: str, text: str, *arguments: str) -> str:
    """Run a file of tests in a folder of `tests`, with our plugin, in this process. Return the output."""
    folder = pytester.mkdir("tests") / room
    folder.mkdir()
    (folder / "test_cases.py").write_text(text)
    pytester.makeconftest('pytest_plugins = ("tests.layers",)')
    marks = "".join(f"    {mark}: a mark\n" for mark in ("matrix", "blocking", "profiles", "flaky"))
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n{marks}")
    done = pytester.runpytest_inprocess("-q", "-p", "no:asyncio", "--import-mode=importlib", *arguments, folder)
    return f"{done.stdout}\nexit code {done.ret:d}"


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    output = run_pytest(pytester, "api", CASES, "--collect-only", *arguments)
    return [line.partition("::")[2] for line in output.splitlines() if "::" in line]


def test_each_behaviour_runs_once_and_front_specific_tests_run_more_often(pytester: pytest.Pytester) -> None:
    assert collected(pytester) == [
        "test_plain[aio-default]",
        "test_of_a_blocking_method[aio-default]",
        "test_of_a_blocking_method[sync-default]",
        "test_of_subjects[aio-default]",
        "test_of_subjects[aio-v2_domain]",
        "test_of_subjects[aio-private_inbox]",
        "test_of_both[aio-default]",
        "test_of_both[aio-v2_domain]",
        "test_of_both[aio-private_inbox]",
        "test_of_both[sync-default]",
        "test_of_one_front[default-sync]",
        "test_of_one_profile[aio-v2_domain-1]",
        "test_of_fronts_only[aio]",
    ]


def test_the_matrix_has_every_front_on_every_profile_and_the_long_tests(pytester: pytest.Pytester) -> None:
    found = collected(pytester, "--matrix")
    assert len(found) == 4 * 6 + 3 + 2 + 2 + 1
    assert {"test_plain[sync-private_inbox]", "test_of_fronts_only[sync]", "test_long"} <= set(found)


def test_a_server_case_that_fails_once_is_named_and_does_not_fail_the_run(pytester: pytest.Pytester) -> None:
    output = run_pytest(pytester, "api", FAILING.format(count=2))
    assert "exit code 0" in output
    assert "cases that ran twice" in output
    assert "api/test_cases.py::test_that_fails_once[0]\n" in output
    assert "2 passed, 2 rerun" in output


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_run_with_more_than_two_such_cases_fails(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    output = run_pytest(pytester, "api", FAILING.format(count=3), *workers)
    assert "exit code 1" in output
    assert "3 cases ran twice; 2 may. The run has failed." in output


@pytest.mark.parametrize("room", ["driver", "jetstream"])
def test_a_case_without_io_never_runs_twice(pytester: pytest.Pytester, room: str) -> None:
    output = run_pytest(pytester, room, FAILING.format(count=1))
    assert "exit code 1" in output
    assert "1 failed" in output
    assert "rerun" not in output


def test_a_case_that_starts_a_server_in_a_folder_without_io_may_run_twice(pytester: pytest.Pytester) -> None:
    server = "\n@pytest.fixture(autouse=True)\ndef jetstream_server(): pass\n"
    output = run_pytest(pytester, "jetstream", FAILING.format(count=1) + server)
    assert "exit code 0" in output
    assert "1 rerun" in output


def test_workers_begin_with_slow_files_and_continue_with_long_ones(pytester: pytest.Pytester) -> None:
    slow = "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\n"
    short, long = "def test_short(): pass\n", "def test_one(): pass\ndef test_two(): pass\n"
    pytester.makeini("[pytest]\nmarkers = slow: a mark\n")
    pytester.makepyfile(test_a=short, test_b=long, test_c=slow, test_d=slow + long, test_e=short)
    items, _ = pytester.inline_genitems("-p", "no:asyncio")
    order_files(items)
    assert [item.path.stem[-1] for item in items] == ["d", "d", "d", "c", "b", "b", "a", "e"]
