"""Find files of Python that are too long to be about one thing.

    python tools/check_sizes.py            one line for each hand-written file of `PARTS` with more than `MOST` lines
    python tools/check_sizes.py src        only in this folder

Generated files may have any length; the text at their top says what generates them. The exit code is 1 if a file is too
long. Split it by subject, so that a reader finds each file by its name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["main", "too_long"]

ROOT: Final = Path(__file__).resolve().parent.parent
PARTS: Final = ("src", "tests", "tools", "bench", "demo", "examples")
MOST: Final = 400
GENERATED: Final = "\nMade by `tools/make_"
"""The text at the top of a generated file."""
TOP: Final = 300
"""Number of characters in which it must be."""


def too_long(files: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Yield the hand-written files with too many lines, and their numbers of lines."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        if lines > MOST and GENERATED not in text[:TOP]:
            yield file, lines


def main(arguments: list[str] | None = None) -> int:
    """Print the files that are too long; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / part for part in PARTS])
    files = {file.resolve() for path in parser.parse_args(arguments).paths for file in (path, *path.rglob("*.py"))}
    found = list(too_long(sorted(file for file in files if file.is_file())))
    for file, lines in found:
        shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        sys.stdout.write(f"{shown}: {lines} lines, {lines - MOST} too many: split the file by subject\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
