"""pytest plugin: selects the cases of `make test`, and the cases that may run twice.

A run without options takes each behaviour once: on the asyncio front and the default server profile. With `--matrix` it
takes every front on every profile, and the tests with the mark `matrix`: clusters, long fault runs, and tests that take
minutes. Two marks widen a test in a run without options:

- `blocking`: the blocking front too, because no other test calls the method there;
- `profiles`: every server profile, because subjects or inboxes differ between them.

A case on a real server or cluster that fails runs once more, because the machine may have stalled. The summary names
each such case. A run with more than `MOST_RERUNS` of them fails. Cases without I/O never run twice.

Workers of xdist take the files in the order of `order_files`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

__all__ = ["FRONTS", "MOST_RERUNS", "PROFILES", "Reruns"]

FRONTS: Final = ("aio", "sync")
PROFILES: Final = ("default", "v2_domain", "private_inbox")
"""Names of the server profiles, which `tests.fronts` defines."""
MOST_RERUNS: Final = 2
_WITHOUT_IO: Final = frozenset({"driver", "engine", "jetstream", "payload", "tools", "wire"})
_SERVERS: Final = frozenset({"jetstream_server"})
"""Fixtures that start a server in these folders, for a few tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", action="store_true", help="every front on every server profile, and the longest tests")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reruns(), "jetspark-reruns")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the fronts and the profiles of a test, unless the test names them."""
    named = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark)}
    names = [name for name in ("front", "profile") if name in metafunc.fixturenames and name not in named]
    if not names:
        return
    wide, marks = metafunc.config.getoption("--matrix"), metafunc.definition.get_closest_marker
    fronts = FRONTS if wide or marks("blocking") else FRONTS[:1]
    profiles = PROFILES if wide or marks("profiles") else PROFILES[:1]
    values = {"front": fronts, "profile": profiles}
    chosen = [
        pair
        for pair in itertools.product(*(values[name] for name in names))
        if wide or sum(value != values[name][0] for name, value in zip(names, pair, strict=True)) < 2
    ]
    metafunc.parametrize(names, chosen, indirect=True)


def _names(mark: pytest.Mark) -> list[str]:
    """Return the names of the parameters of a mark `parametrize`."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--matrix"):
        left_out = [item for item in items if item.get_closest_marker("matrix") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("matrix") is None]
    if hasattr(config, "workerinput"):  # of xdist
        order_files(items)
    for item in items:
        if folder_of(item) not in _WITHOUT_IO or _SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.flaky(reruns=1))


def order_files(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, and then those with many tests, so that all workers end at the same time."""
    counts = Counter(item.path for item in items)
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: (item.path not in slow, -counts[item.path]))


def folder_of(item: pytest.Item) -> str:
    """Return the folder below `tests` that contains a test; empty for a test elsewhere."""
    return _folder_of(item.path, item.config.rootpath / "tests")


@functools.cache
def _folder_of(path: Path, tests: Path) -> str:
    return path.relative_to(tests).parts[0] if path.is_relative_to(tests) else ""


class Reruns:
    """Names the cases that ran twice, and fails a run that has too many of them."""

    def __init__(self) -> None:
        self.cases: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if str(report.outcome) == "rerun":  # an outcome that only pytest-rerunfailures has
            self.cases.append(report.nodeid)

    @property
    def too_many(self) -> bool:
        """Whether the run fails."""
        return len(self.cases) > MOST_RERUNS

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_many and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.cases:
            return
        terminalreporter.section("cases that ran twice")
        for case in self.cases:
            terminalreporter.line(case)
        if self.too_many:
            terminalreporter.line(f"{len(self.cases)} cases ran twice; {MOST_RERUNS} may. The run has failed.")
