"""Spark's own cluster manager on loopback: a master and two workers, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bulk.streams import until

__all__ = ["StandaloneCluster", "Worker", "standalone_cluster"]

_DEPLOY: Final = "org.apache.spark.deploy"
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Worker:
    """A worker with its executors: one process group."""

    process: subprocess.Popen[bytes]
    folder: Path

    def kill(self) -> None:
        """Kill the worker and its executors."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class StandaloneCluster:
    """A running cluster; see the module."""

    url: str
    workers: tuple[Worker, ...]

    def logs(self) -> list[str]:
        """Return what the executors of all applications have logged."""
        return [file.read_text() for worker in self.workers for file in worker.folder.glob("app-*/*/std*")]


@contextlib.contextmanager
def standalone_cluster(home: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[StandaloneCluster]:
    """Start a master and two workers with one core each; stop them at the end.

    Parameters
    ----------
    home
        Spark's home.
    folder
        For logs, and the folders of the workers.
    environment
        Environment variables of the master and of the workers.
    """
    started: list[Worker] = []

    def start(name: str, *arguments: str) -> tuple[Worker, Path]:
        log = folder / f"{name}.log"
        line = [str(home / "bin" / "spark-class"), *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(line, stdout=output, stderr=output, env=environment, start_new_session=True)
        started.append(Worker(process, folder / name))
        return started[-1], log

    def wait_for(text: re.Pattern[str], worker: Worker, log: Path) -> str:
        until(lambda: text.search(log.read_text()) is not None or worker.process.poll() is not None, _SECONDS)
        found = text.search(log.read_text())
        assert found is not None, log.read_text()[-3000:]
        return found[found.lastindex or 0]

    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    try:
        url = wait_for(_MASTER, *start("master", f"{_DEPLOY}.master.Master", *ports))
        resources = ["--cores", "1", "--memory", "1g"]
        pairs = [
            start(name, f"{_DEPLOY}.worker.Worker", *ports, *resources, "--work-dir", str(folder / name), url)
            for name in ("one", "two")
        ]
        for worker, log in pairs:
            wait_for(re.compile("Successfully registered with master"), worker, log)
        yield StandaloneCluster(url, tuple(worker for worker, _ in pairs))
    finally:
        for each in reversed(started):
            each.kill()
