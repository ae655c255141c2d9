"""The list of requirements, the marks, the report of their outcomes, and the documentation page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.conformance import ROOT, State, read_requirements, state_of

from tools import conformance

pytest_plugins = ("pytester",)

ALL = 332

MARKED = """
import pytest

@pytest.mark.conformance("ACK-01")
def test_that_passes(): pass

@pytest.mark.conformance("ACK-02", "ACK-03")
@pytest.mark.parametrize("number", [1, 2])
def test_that_passes_once(number): assert number == 1

@pytest.mark.conformance("ACK-04")
def test_that_is_skipped(): pytest.skip("no reason")

@pytest.mark.conformance("ACK-05")
@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail(): assert False

@pytest.fixture
def broken():
    yield
    raise RuntimeError("broken")

@pytest.mark.conformance("ACK-06")
def test_that_breaks_behind(broken): pass

@pytest.mark.conformance("ACK-01")
def test_that_passes_as_well(): pass

def test_without_a_mark(): assert False
"""


def run_pytest(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    """Run a file of tests with our plugin, in this process."""
    pytester.makeconftest('pytest_plugins = ("tests.conformance_plugin",)')
    pytester.makepyfile(test_marked=text)
    pytester.makeini("[pytest]\nmarkers = conformance(*ids): ids\n")
    return pytester.runpytest_inprocess("-q", "-p", "no:asyncio", *arguments, "test_marked.py")


def test_the_list_has_332_requirements_in_sections() -> None:
    requirements = read_requirements()
    assert len(requirements) == ALL
    assert len({each.id for each in requirements}) == ALL
    assert all(each.section and each.title for each in requirements)


@pytest.mark.parametrize("line", ["ACK-1  too short", "ACK-01", "ack-01  small letters"])
def test_a_line_without_id_and_title_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ids.txt"
    path.write_text(f"# note\n\n{line}\n")
    with pytest.raises(ValueError, match=r"ids.txt, line 3: no id and title"):
        read_requirements(path)


def test_a_duplicate_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("ACK-01  one\nACK-01  two\n")
    with pytest.raises(ValueError, match="line 2: an id twice"):
        read_requirements(path)


def test_outcomes_are_recorded_by_requirement(pytester: pytest.Pytester) -> None:
    report = pytester.path / "report.json"
    run_pytest(pytester, MARKED, "-m", "conformance", f"--conformance-report={report}")
    outcomes = json.loads(report.read_text())
    states = {name: state_of(tests) for name, tests in outcomes.items()}
    assert states == {
        "ACK-01": State.PASSED,
        "ACK-02": State.FAILED,
        "ACK-03": State.FAILED,
        "ACK-04": State.NOT_WRITTEN,
        "ACK-05": State.FAILED,
        "ACK-06": State.FAILED,
    }
    assert len(outcomes["ACK-01"]) == 2


def test_the_list_is_read_from_the_marks_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "test_marked.py").write_text(MARKED)
    (tmp_path / "room" / "test_cases.py").write_text(
        'CASES = [pytest.param(1, marks=pytest.mark.conformance("ACK-06", "ACK-07"))]\n'
        "TEXT = '@pytest.mark.conformance(\"ACK-08\")'\n"
    )
    found = conformance.collect(tmp_path)
    assert sorted(found) == [f"ACK-0{number}" for number in range(1, 8)]
    assert {state_of(tests) for tests in found.values()} == {State.TESTED}
    assert sorted(found["ACK-06"]) == ["test_cases.py", "test_marked.py"]


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ('conformance("ACK-99")', "no requirement has the id 'ACK-99'"),
        ('conformance("ACK-01", "ack-02")', "no requirement has the id 'ack-02'"),
        ("conformance", "takes ids, and at least one"),
        ('conformance(id="ACK-01")', "takes ids, and at least one"),
    ],
)
def test_an_unknown_id_ends_every_run_at_collection(pytester: pytest.Pytester, mark: str, problem: str) -> None:
    done = run_pytest(pytester, f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n", "-k", "nothing")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*test_marked.py::test_it: *{problem}*"])


def test_the_command_prints_each_requirement_and_writes_the_documentation_page(tmp_path: Path) -> None:
    page = tmp_path / "conformance.md"
    command = [sys.executable, str(ROOT / "tools" / "conformance.py"), "--list", "--markdown", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    *lines, counts = done.stdout.splitlines()
    states = dict(line.split(" ", 1) for line in lines)
    assert list(states) == [each.id for each in read_requirements()]
    tested = sum(state == "tested" for state in states.values())
    assert counts == f"{tested} tested, {ALL - tested} not written"
    found = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert found == page.read_text(encoding="utf-8"), (
        "run: python tools/conformance.py --list --markdown docs/conformance.md"
    )


@pytest.mark.parametrize(
    ("outcomes", "code", "lines", "counts"),
    [
        ({}, 0, ["WIR-01 not written"], f"0 passed, 0 failed, {ALL} not written"),
        (
            {"WIR-01": {"a": "passed", "b": "skipped"}},
            0,
            ["WIR-01 passed"],
            f"1 passed, 0 failed, {ALL - 1} not written",
        ),
        (
            {"WIR-01": {"a": "passed", "b": "failed"}, "WIR-02": {"a": "passed"}},
            1,
            ["WIR-01 failed", "WIR-02 passed"],
            f"1 passed, 1 failed, {ALL - 2} not written",
        ),
        ({"WIR-01": {"a": ""}}, 1, ["WIR-01 failed"], f"0 passed, 1 failed, {ALL - 1} not written"),
    ],
    ids=["nothing", "all good", "one bad", "did not run"],
)
def test_the_exit_code_shows_whether_a_requirement_failed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcomes: dict[str, dict[str, str]],
    code: int,
    lines: list[str],
    counts: str,
) -> None:
    monkeypatch.setattr(conformance, "run_tests", lambda *arguments: (code, outcomes))
    assert conformance.main([]) == code
    printed = capsys.readouterr().out.splitlines()
    assert printed[: len(lines)] == lines
    assert printed[-1] == counts
