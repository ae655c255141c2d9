"""Runs the examples of the pages in `docs`."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["DOCS", "examples", "indented", "run", "run_at", "run_process", "title"]

DOCS = Path(__file__).parents[1] / "docs"


def examples(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def run(script: str) -> str:
    """Run a script in this process, and return its output. A process of its own would import everything again."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(script, "<example>", "exec"), {"__name__": "__main__"})
    return output.getvalue()


def run_process(script: str) -> str:
    """Run a script in a process of its own, which must succeed, and return its output."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_at(url: str, example: str) -> str:
    """Run an example with the server at `url`, and return its output."""
    return run(example.replace("nats://localhost:4222", url))


def indented(example: str, depth: int = 1) -> str:
    """Return an example as the body of a function."""
    return textwrap.indent(example.rstrip("\n"), "    " * depth)


def title(example: str) -> str:
    """Return the name of an example in test ids."""
    return example.strip().splitlines()[0][:40]
