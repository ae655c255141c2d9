"""The pytest plugin of a mutation run: it notes which functions each test calls, or runs the tests that were chosen."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
from hypothesis import Phase, settings

NOTES: Final = "MUTANTS_NOTES"
"""The file for what the tests call: `{test: [seconds, [[file, line of the function], ...]]}`."""
CHOSEN: Final = "MUTANTS_CHOSEN"
"""The file with the tests to run, in their order."""

_calls: set[tuple[str, int]] = set()
_notes: dict[str, tuple[float, list[tuple[str, int]]]] = {}


def _note(frame: FrameType, *_: object) -> None:
    _calls.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))


def pytest_sessionstart() -> None:
    """Hypothesis need not look for the shortest example, nor keep one."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings.default, phases=phases, database=None, derandomize=True)
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHOSEN in os.environ:
        chosen = {test: at for at, test in enumerate(json.loads(Path(os.environ[CHOSEN]).read_text()))}
        items[:] = sorted((item for item in items if item.nodeid in chosen), key=lambda item: chosen[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if NOTES not in os.environ:
        return (yield)
    _calls.clear()
    began = time.monotonic()
    sys.settrace(_note)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        source = os.environ["PYTHONPATH"].split(os.pathsep)[0]
        called = [call for call in _calls if call[0].startswith(source)]
        _notes[item.nodeid] = time.monotonic() - began, called


def pytest_sessionfinish() -> None:
    if NOTES in os.environ:
        Path(os.environ[NOTES]).write_text(json.dumps(_notes))
