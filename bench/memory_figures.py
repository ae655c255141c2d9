"""Memory of Spark's Python workers, which must not grow with the stream.

The kernel keeps the highest resident size of every process. It is set back in all workers of this session before a
read, and the largest one is taken after it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import figure
from bench.spark_figures import session
from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from bench.run import Run

SMALL, LARGE = 100_000, 3_000_000
"""Messages of the streams; `QUICK` takes a tenth of the larger one."""

PROC = Path("/proc")


def workers() -> list[Path]:
    """The Python workers that descend from this process, as their folders in /proc."""
    parents: dict[int, int] = {}
    daemons: list[int] = []
    for folder in PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
        if b"pyspark.daemon" in command:
            daemons.append(int(folder.name))
    return [PROC / str(pid) for pid in daemons if descends(pid, os.getpid(), parents)]


def descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    """Whether a process is a child of another one, or a child's child."""
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def peak(folder: Path) -> float:
    """Highest resident size since the last reset, in MiB; 0 for a process that has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def worker_peak(run: Run, count: int) -> float:
    """Highest resident size of a worker while a stream of so many messages is read."""
    if not (PROC / "self" / "clear_refs").exists():
        raise Unavailable("needs /proc of Linux")
    reader = run.shared(session).read.format("jetstream").option("servers", run.url)
    frame = reader.option("stream", run.stream(count)).load()
    for folder in workers():
        (folder / "clear_refs").write_text("5")
    frame.write.format("noop").mode("overwrite").save()
    return max(peak(folder) for folder in workers())


@figure("worker_memory_small", group="memory", unit="MiB")
def worker_memory_small(run: Run) -> float:
    """Peak of a Python worker that reads 100,000 messages."""
    return worker_peak(run, SMALL)


@figure("worker_memory_large", group="memory", unit="MiB", reference="worker_memory_small")
def worker_memory_large(run: Run) -> float:
    """Peak of a Python worker that reads 3,000,000 messages."""
    return worker_peak(run, run.count(LARGE))
