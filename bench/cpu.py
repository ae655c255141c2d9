"""The CPU time of this process and of all processes that it has started: the server, the JVM, Spark's workers."""

from __future__ import annotations

import os
from pathlib import Path

from bench.unavailable import Unavailable

PROCESSES = Path("/proc")

PARENT, USER, SYSTEM, USER_OF_CHILDREN, SYSTEM_OF_CHILDREN = 1, 11, 12, 13, 14
"""Fields of `/proc/<pid>/stat`, counted from the state on."""


def cpu_seconds() -> float:
    """Return the seconds of CPU that the processes have used so far, those that have ended included.

    Raises:
        Unavailable: the system has no `/proc`.
    """
    if not (PROCESSES / "self" / "stat").exists():
        raise Unavailable("CPU time of other processes needs /proc")
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in PROCESSES.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        used[int(folder.name)] = sum(int(fields[at]) for at in (USER, SYSTEM, USER_OF_CHILDREN, SYSTEM_OF_CHILDREN))
        children.setdefault(int(fields[PARENT]), []).append(int(folder.name))
    waiting, ticks = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        ticks += used.get(process, 0)
        waiting += children.get(process, [])
    return ticks / os.sysconf("SC_CLK_TCK")
