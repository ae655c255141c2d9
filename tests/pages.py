"""The examples of the pages in `docs`, and how they are run."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["DOCS", "examples", "indented", "run", "run_at", "title"]

DOCS = Path(__file__).parents[1] / "docs"


def examples(page: str) -> list[str]:
    """The Python in a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def run(script: str) -> str:
    """What a script prints, which must succeed."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_at(url: str, example: str) -> str:
    """What an example prints when the server that it names is at `url`."""
    return run(example.replace("nats://localhost:4222", url))


def indented(example: str, depth: int = 1) -> str:
    """An example as the body of a function."""
    return textwrap.indent(example.rstrip("\n"), "    " * depth)


def title(example: str) -> str:
    """What a test shows an example as."""
    return example.strip().splitlines()[0][:40]
