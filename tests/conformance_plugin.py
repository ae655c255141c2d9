"""pytest plugin: records which requirements of the design documents the tests cover.

Every run refuses a mark with a requirement that is not in the list. With `--conformance-report=FILE` the outcomes are
written as JSON, by requirement and test, for `tools/conformance.py`.
"""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tools.conformance import MARK, REPORT_OPTION, read_requirements


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REPORT_OPTION, metavar="FILE", help="write the outcomes by requirement as JSON")


def pytest_configure(config: pytest.Config) -> None:
    known = frozenset(requirement.id for requirement in read_requirements())
    config.pluginmanager.register(Conformance(known, config.getoption(REPORT_OPTION)), "conformance")


class Conformance:
    """Checks the marks, and keeps the outcomes of marked tests."""

    def __init__(self, known: frozenset[str], report: str | None) -> None:
        self._known = known
        self._report = report
        self._ids: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}

    # Before the options -m and -k select tests: a wrong mark is wrong on any test.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wrong = []
        for item in items:
            for mark in item.iter_markers(MARK):
                wrong += [f"{item.nodeid}: {problem}" for problem in self._problems(mark)]
        if wrong:
            raise pytest.UsageError("\n".join(wrong))

    def _problems(self, mark: pytest.Mark) -> list[str]:
        if not mark.args or mark.kwargs:
            return ["the mark conformance takes ids, and at least one"]
        return [f"no requirement has the id {name!r}" for name in mark.args if name not in self._known]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            ids = [name for mark in item.iter_markers(MARK) for name in mark.args]
            if ids:
                self._ids[item.nodeid] = list(dict.fromkeys(ids))
                self._outcomes[item.nodeid] = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if item.nodeid in self._ids:
            self._outcomes[item.nodeid] = worse(self._outcomes[item.nodeid], outcome(report))
        return report

    def pytest_sessionfinish(self) -> None:
        if self._report is None:
            return
        by_id: dict[str, dict[str, str]] = {}
        for test, ids in self._ids.items():
            for name in ids:
                by_id.setdefault(name, {})[test] = self._outcomes[test]
        Path(self._report).write_text(json.dumps(by_id), encoding="utf-8")


def outcome(report: pytest.TestReport) -> str:
    """Return the outcome of one phase of a test. An expected failure is a failure: the requirement is not fulfilled."""
    if report.failed or hasattr(report, "wasxfail"):
        return "failed"
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else ""


def worse(one: str, other: str) -> str:
    """Return the outcome of a test from those of two phases."""
    return max(one, other, key=["", "passed", "skipped", "failed"].index)
