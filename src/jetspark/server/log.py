"""A server's log file. It contains standard output and standard error, so also a panic."""

import re
from pathlib import Path

__all__ = ["ServerLog"]

_TAIL_LINES = 40


class ServerLog:
    """The log at a path; a missing file reads as empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Return the size in bytes, which is the position of the next line."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def text(self, start: int = 0) -> str:
        """Return the text from byte `start` on."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, start: int = 0) -> str:
        """Return the last 40 lines of the text from byte `start` on."""
        return "\n".join(self.text(start).splitlines()[-_TAIL_LINES:])

    def find(self, pattern: str, start: int = 0) -> str | None:
        """Return the first match of a regular expression in the complete lines from byte `start` on, None if none."""
        found = re.search(pattern, self.text(start).rpartition("\n")[0])
        return found[0] if found else None
