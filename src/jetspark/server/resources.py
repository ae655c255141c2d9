"""Resources of a managed server, separate from the server object, so that a finalizer can release them."""

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
