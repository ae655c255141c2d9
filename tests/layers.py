"""pytest: what `make test` runs, and which cases may run twice.

`make test` runs each behaviour once: on the asyncio front and the default server profile. `make matrix` runs every
case. A case that only `make matrix` runs has the mark `matrix`. Two marks keep a test of both fronts, or of all
profiles, in `make test`:

- `blocking`: the test calls a method of the blocking front that no other test of `make test` calls;
- `profiles`: subjects or inboxes differ between the server profiles.

A case on a real server or cluster that fails runs once more, since the machine may have stalled. The summary names each
such case. A run with more than `MOST_RERUNS` of them fails. Cases without I/O never run twice.
"""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["MOST_RERUNS", "Reruns", "is_of_the_matrix"]

MOST_RERUNS: Final = 2
DEFAULT_FRONT: Final = "aio"
DEFAULT_PROFILE: Final = "default"
_WITHOUT_IO: Final = frozenset({"driver", "flow", "tools", "wire"})


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reruns(), "jetspark-reruns")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_of_the_matrix(item):
            item.add_marker(pytest.mark.matrix)
        if room_of(item) not in _WITHOUT_IO:
            item.add_marker(pytest.mark.flaky(reruns=1))


def room_of(item: pytest.Item) -> str:
    """Return the folder below `tests` that holds a test; empty for one that is elsewhere."""
    folder = item.config.rootpath / "tests"
    return item.path.relative_to(folder).parts[0] if item.path.is_relative_to(folder) else ""


def is_of_the_matrix(item: pytest.Item) -> bool:
    """Whether only `make matrix` runs a case. A test that names its front or its profile means just that one."""
    chosen = {name for mark in item.iter_markers("parametrize") for name in str(mark.args[0]).split(",")}
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    front, profile = parameters.get("front", DEFAULT_FRONT), parameters.get("profile", DEFAULT_PROFILE)
    other_front = front != DEFAULT_FRONT and "front" not in chosen
    other_profile = profile != DEFAULT_PROFILE and "profile" not in chosen
    if other_front and other_profile:
        return True  # one difference at a time
    if other_front:
        return item.get_closest_marker("blocking") is None
    return other_profile and item.get_closest_marker("profiles") is None


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
