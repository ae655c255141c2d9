"""Resources of a managed server, separate from the server object, so that a finalizer can release them."""

import os
import shutil
import tempfile
from pathlib import Path

from jetspark.server.ports import ReservedPort
from jetspark.server.process import ServerProcess

__all__ = ["ServerResources"]


class ServerResources:
    """A process, reserved ports, and a temporary directory; each may be absent."""

    def __init__(self) -> None:
        self._owner_pid = os.getpid()
        self.process: ServerProcess | None = None
        self.ports: list[ReservedPort] = []
        self.work_dir: Path | None = None

    @property
    def unreleased(self) -> bool:
        """Whether there is anything that this process has to release, apart from ports."""
        return os.getpid() == self._owner_pid and (self.process is not None or self.work_dir is not None)

    def require_work_dir(self) -> Path:
        """Return the temporary directory; create it if there is none."""
        if self.work_dir is None:
            self.work_dir = Path(tempfile.mkdtemp(prefix="jetspark-server-"))
        return self.work_dir

    def reserve_port(self, host: str) -> int:
        """Reserve a free port of `host` and return its number."""
        port = ReservedPort(host)
        self.ports.append(port)
        return port.port

    def release(self) -> None:
        """Kill the process and release everything. In a forked child, only close the ports: the parent has the rest."""
        while self.ports:
            self.ports.pop().close()
        if os.getpid() != self._owner_pid:
            return
        if self.process is not None:
            self.process.terminate()
            self.process = None
        if self.work_dir is not None:
            shutil.rmtree(self.work_dir, ignore_errors=True)
            self.work_dir = None
