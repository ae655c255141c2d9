"""What a managed server holds, apart from the server object, so that a finalizer can give it back."""

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from jetspark.server.ports import ReservedPort
    from jetspark.server.process import ServerProcess

__all__ = ["ServerResources"]


class ServerResources:
    """A process, reserved ports, and a temporary directory; each may be there or not."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self.process: ServerProcess | None = None
        self.ports: list[ReservedPort] = []
        self.work_dir: Path | None = None

    def release(self) -> None:
        """Kill the process and give everything back; in a forked child, process and directory are the parent's."""
        while self.ports:
            self.ports.pop().close()
        if os.getpid() != self._owner:
            return
        if self.process is not None:
            self.process.end()
            self.process = None
        if self.work_dir is not None:
            shutil.rmtree(self.work_dir, ignore_errors=True)
            self.work_dir = None
