"""Spark drivers in processes of their own, which are killed after they have planned micro-batches."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bulk.streams import until

__all__ = ["kill_after", "planned", "run_until_killed"]

ROOT: Final = Path(__file__).parents[2]
MAX_STARTS: Final = 3
"""On a busy machine a driver may end, because Spark does not wait long for its Python workers."""
_SECONDS: Final = 240.0


def planned(folder: Path) -> int:
    """Return the number of micro-batches that drivers have planned; the checkpoint is `folder`/checkpoint."""
    return len([each for each in (folder / "checkpoint" / "offsets").glob("*") if each.name.isdecimal()])


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    line = [sys.executable, "-m", *command]
    return subprocess.Popen(line, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill a driver with its processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def kill_after(command: Sequence[str], folder: Path, batches: int) -> None:
    """Kill a driver after it has planned a number of micro-batches more. `command` is a module and its arguments."""
    goal = planned(folder) + batches
    for _ in range(MAX_STARTS):
        driver = _start(command)
        try:
            until(lambda: planned(folder) >= goal or driver.poll() is not None, _SECONDS)  # noqa: B023 - ends here
        finally:
            _kill(driver)
        if planned(folder) >= goal:
            return
    raise AssertionError(f"{MAX_STARTS} drivers planned only {planned(folder)} of {goal} micro-batches")


def run_until_killed(command: Sequence[str]) -> None:
    """Run a driver that kills itself."""
    for _ in range(MAX_STARTS):
        driver = _start(command)
        try:
            if driver.wait(_SECONDS) == -signal.SIGKILL:
                return
        finally:
            _kill(driver)
    raise AssertionError(f"{MAX_STARTS} drivers ended in another way: {driver.returncode}")
