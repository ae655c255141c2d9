"""The process of the driver: started, watched through its output, and killed with its child processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import cast

from tests.chaos import job as job_module
from tests.chaos.job import Failure, Found, Job
from tests.spark.home import spark_home

__all__ = ["Driver", "DriverError", "command_line", "descendants"]

EXECUTOR = "CoarseGrainedExecutorBackend"
GONE_TIMEOUT = 30.0


class DriverError(Exception):
    """The driver did not do what it should."""


class Driver:
    """One Spark driver at a time, with its logs and its Spark home in a folder."""

    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder
        self._job = folder / "job.json"
        self._job.write_text(json.dumps(job))
        self._home = spark_home(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = folder / "stdout"
        self._orphans: list[int] = []
        self.starts = 0
        self.failures: Counter[str] = Counter()

    @property
    def running(self) -> bool:
        """Whether the driver is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the queries at their checkpoints."""
        self._note_failures()
        self._process = self._launch("run")
        self.starts += 1

    def drain(self, timeout: float) -> dict[str, Found]:
        """Read the rest; return the content of the Parquet files of each leg."""
        self._note_failures()
        process = self._launch("drain")
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._kill(process)
            raise DriverError(f"not done after {timeout:g} s: {self.log()}") from None
        if code:
            raise DriverError(f"exit code {code}: {self.log()}")
        found: dict[str, Found] = self._lines()[-1]["found"]  # type: ignore[assignment]  # as `job.drain` writes it
        self._note_failures()
        return found

    def mark(self) -> tuple[int, int]:
        """The progress of the driver, for `await_batches`: how often it was started, and its output since then."""
        return self.starts, len(self._lines())

    def await_batches(self, legs: Collection[str], timeout: float, since: tuple[int, int] = (0, 0)) -> None:
        """Wait until each leg has had a micro-batch since a mark. A driver that ends meanwhile is started again.

        Create the mark before the messages are published, because the micro-batches may be done before this call.
        """
        deadline = time.monotonic() + timeout
        missing = set(legs)
        while missing:
            if not self.running:
                self.start()
            before = since[1] if since[0] == self.starts else 0
            missing -= {line["leg"] for line in self._lines()[before:] if line.get("rows")}
            if time.monotonic() > deadline:
                raise DriverError(f"no micro-batch of {', '.join(sorted(missing))} in {timeout:g} s: {self.log()}")
            time.sleep(0.05)  # another process: its output is the only thing to wait for

    def kill(self) -> bool:
        """Kill the driver, Python and JVM, with SIGKILL; return False if it had ended. Child processes notice it."""
        if self._process is None:
            return False
        running = self.running
        self.wake()
        self._kill(self._process)
        self._note_failures()
        return running

    def kill_executor(self) -> bool:
        """Kill an executor with SIGKILL; return False if there is none at the moment."""
        for pid in self._executors():
            _signal(pid)
            return True
        return False

    def orphan_executor(self) -> bool:
        """Pause the executors and kill the driver; return False if there is none. `wake` resumes the executors."""
        executors = self._executors()
        if not executors or self._process is None or not self.running:
            return False
        halted = [each for pid in executors for each in (pid, *descendants(pid))]
        for pid in halted:
            _signal(pid, signal.SIGSTOP)
        self._kill(self._process, orphans=halted)
        self._orphans = halted
        return True

    def wake_workers(self) -> None:
        """Resume the Python workers of orphaned executors, but not the JVMs, which would end them."""
        for pid in self._orphans:
            if EXECUTOR not in command_line(pid):
                _signal(pid, signal.SIGCONT)

    def wake(self) -> None:
        """Resume orphaned executors, and wait until they notice that their driver is gone."""
        orphans, self._orphans = self._orphans, []
        for pid in orphans:
            _signal(pid, signal.SIGCONT)
        _await_gone(orphans)

    def log(self) -> str:
        """Return the end of the logs of the drivers, without the hundreds of frames of JVM errors."""
        lines = (self._folder / "stderr").read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.startswith("\tat "))[-4000:]

    def note_failure(self, failure: Failure) -> None:
        """Count a query that failed."""
        self.failures[f"{failure['failed']}: {failure['cause']}"] += 1

    def _note_failures(self) -> None:
        """Count the failed queries of the driver that has ended, once."""
        if self._output.exists():
            for line in self._lines():
                if "failed" in line:
                    self.note_failure(cast("Failure", line))
            self._output.unlink()

    def _launch(self, mode: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])),
        }
        command = [sys.executable, "-m", job_module.__name__, mode, str(self._job)]
        with self._output.open("wb") as output, (self._folder / "stderr").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=environment, start_new_session=True
            )

    def _lines(self) -> list[dict[str, object]]:
        lines: list[dict[str, object]] = []
        if not self._output.exists():
            return lines
        for line in self._output.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):  # cut off by a kill
                lines.append(json.loads(line))
        return lines

    def _executors(self) -> list[int]:
        if self._process is None:
            return []
        return [pid for pid in descendants(self._process.pid) if EXECUTOR in command_line(pid)]

    def _kill(self, process: subprocess.Popen[bytes], orphans: Collection[int] = ()) -> None:
        hanging = [pid for pid in descendants(process.pid) if pid not in orphans]
        for pid in (process.pid, *(pid for pid in hanging if "SparkSubmit" in command_line(pid))):
            _signal(pid)
        process.wait()
        _await_gone(hanging)


def _await_gone(processes: Sequence[int]) -> None:
    """Wait until processes end by themselves; kill the others."""
    deadline = time.monotonic() + GONE_TIMEOUT
    while any(_alive(pid) for pid in processes) and time.monotonic() < deadline:
        time.sleep(0.05)  # they are not our children, so no event reports their end
    for pid in processes:
        if _alive(pid):
            _signal(pid)


def descendants(pid: int) -> Iterator[int]:
    """Return the child processes of a process, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    rest = [pid]
    while rest:
        below = children.get(rest.pop(), [])
        yield from below
        rest += below


def command_line(pid: int) -> str:
    """Return the command line of a process; nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _signal(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
