"""pytest plugin: a whole run calls every public method of the blocking front.

With `--every-blocking-method`, each public method is replaced by one that records its first call and then puts the
original back. The run fails if a method was never called; the summary names it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from jetspark import sync
from jetspark.sync import jetstream

OPTION: Final = "--every-blocking-method"
_KEY: Final = "blocking_methods"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="fail if a public method of the blocking front is never called")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(OPTION):
        config.pluginmanager.register(BlockingMethods(config), "jetspark-blocking-methods")


def public_methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield the public methods of the public classes of the blocking front: class, name, function."""
    public = {getattr(module, name) for module in (sync, jetstream) for name in module.__all__}
    owners = {
        base
        for each in public
        if inspect.isclass(each)
        for base in each.__mro__
        if base.__module__.startswith("jetspark.sync")
    }
    for owner in owners:
        for name, value in vars(owner).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                yield owner, name, value


class BlockingMethods:
    """Records the first call of each method. With xdist, the workers record, and the controller reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._called: set[str] = set()
        self._all = {function.__qualname__ for _, _, function in public_methods()}
        for owner, name, function in public_methods():
            self._record(owner, name, function)

    @property
    def missing(self) -> list[str]:
        """The methods that no test has called."""
        return sorted(self._all - self._called)

    def _record(self, owner: type, name: str, function: Callable[..., Any]) -> None:
        @functools.wraps(function)
        def first_call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(function.__qualname__)
            if vars(owner).get(name) is first_call:
                setattr(owner, name, function)
            return function(*args, **kwargs)

        setattr(owner, name, first_call)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_KEY] = sorted(self._called)
        elif self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._called.update(getattr(node, "workeroutput", {}).get(_KEY, ()))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.missing:
            terminalreporter.write_line(f"no test calls these methods of the blocking front: {', '.join(self.missing)}")
