"""A small disk of its own for a server, which can be full. It needs no root, but user namespaces."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jetspark.server.binary import find_binary

__all__ = ["LEFT", "Disk", "can_mount", "disk"]

SIZE = "4g"  # pages are allocated when they are written
LEFT = 128 << 10
"""Bytes that a full disk has left."""
TRIES = 50
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


class Disk:
    """A file system in memory that only the processes of a mount namespace see.

    Attributes
    ----------
    path
        Where it is mounted in the namespace.
    binary
        Executable that runs nats-server in the namespace.
    """

    def __init__(self, path: Path, binary: Path, holder: int) -> None:
        self.path = path
        self.binary = binary
        self._enter = enter(holder)

    def fill(self) -> None:
        """Leave almost no room: the next writes fail with ENOSPC."""
        for _ in range(TRIES):
            used = int(self._run("df", "--output=used", "--block-size=1", str(self.path)).stdout.split()[-1])
            if self._resize(str(used + LEFT)):
                return
        raise RuntimeError(f"{self.path} could not be filled in {TRIES} tries")

    def make_room(self) -> None:
        """Give the room back."""
        if not self._resize(SIZE):
            raise RuntimeError(f"{self.path} could not get its size again")

    def _resize(self, size: str) -> bool:
        """Change the size; return False if more was written meanwhile than would fit."""
        return self._run("mount", "-o", f"remount,size={size}", str(self.path)).returncode == 0

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._enter, *command], check=False, capture_output=True, text=True)


def enter(holder: int) -> list[str]:
    """Return the start of a command that runs in the namespaces of a process."""
    return ["nsenter", "--target", str(holder), "--user", "--mount", "--preserve-credentials"]


def can_mount() -> bool:
    """Return whether this user may mount in a namespace of its own; some systems forbid it."""
    return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode == 0


@contextlib.contextmanager
def disk() -> Iterator[Disk]:
    """Mount the disk in a new namespace, which a shell keeps alive."""
    folder = Path(tempfile.mkdtemp(prefix="jetspark-disk-"))
    mounted = folder / "store"
    mounted.mkdir()
    script = f"mount -t tmpfs -o size={SIZE} tmpfs {shlex.quote(str(mounted))} && echo mounted && read _"
    with subprocess.Popen([*UNSHARE, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            raise RuntimeError("no file system can be mounted here: it needs user namespaces")
        binary = folder / "nats-server"
        binary.write_text(f'#!/bin/sh\nexec {shlex.join([*enter(holder.pid), str(find_binary(None))])} "$@"\n')
        binary.chmod(0o700)
        yield Disk(mounted, binary, holder.pid)
        holder.stdin.close()
    shutil.rmtree(folder)
