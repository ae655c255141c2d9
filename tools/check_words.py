"""Find words in prose that a reader with English as a second language may misread.

    python tools/check_words.py                one line for each use in `PARTS`: file:line: word: suggestion
    python tools/check_words.py docs src       only in these files and folders
    python tools/check_words.py --count        the number of uses, by folder and word

Prose is Markdown without code, and the comments, docstrings and string literals of Python. A string without a space is
a name and no prose. Text in backticks is code. The name of a function is read as a sentence, without `test_` and the
number of a field report. The exit code is 1 if there is a use.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Use", "find_uses", "main"]

ROOT: Final = Path(__file__).resolve().parent.parent
PARTS: Final = ("src", "tests", "tools", "docs", "bench", "demo", "examples", "README.md", "CHANGELOG.md")
"""Folders and files that are checked by default, and so by `make lint`."""
WORDS: Final = {
    "behind": "after; or say what follows what",
    "anew": "again",
    "told": "reported, raised or passed to",
    "tells": "reports, says or shows",
    "patience": "timeout, or time limit",
    "who": "name the subject: the caller, a program that ...",
    "what": "name the subject: messages that ...",
}
"""Each word, and what to write instead."""
ALLOWED: Final = re.compile(
    r"\b(?:(?:left|leaves?|leaving|lags?|lagging|falls?|fell|falling|far)\s+behind"
    r"|behind\s+(?:schedule|an?\s+(?:proxy|firewall|NAT|load\s+balancer))|told\s+apart)\b",
    re.IGNORECASE,
)
WORD: Final = re.compile(r"\b(behind|anew|told|tells|patience)\b", re.IGNORECASE)
OPENING: Final = re.compile(
    r"(?:\A|^[ \t]*(?:[-*] |\d+\. )?|[.!?][\"')]* +)(?:\*\*)?(Who|What)(?=\s|\Z)(?![^.!?]*\?)", re.MULTILINE
)
"""A sentence, but no question and no heading, that begins with the word."""
FENCE: Final = re.compile(r"^([ \t]*)```.*?^\1```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
QUOTES: Final = re.compile(r"""\A(\w*)(\"{3}|'{3}|"|')(.*)\2\Z""", re.DOTALL)
PREFIX: Final = re.compile(r"\A_*(?:test_)?(?:r\d+_)*")
MIDDLE: Final = getattr(tokenize, "FSTRING_MIDDLE", None)  # since Python 3.12


class Use(NamedTuple):
    """A use of a word."""

    path: Path
    line: int
    word: str


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment, docstring, string literal and name of a function."""
    previous = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if previous == "def":
            yield token.start[0], PREFIX.sub("", token.string).replace("_", " ").capitalize()
        previous = token.string
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
        elif token.type == tokenize.STRING or token.type == MIDDLE:
            quoted = QUOTES.match(token.string)
            text = quoted[3] if quoted else token.string
            if quoted and "f" in quoted[1].lower():
                text = re.sub(r"\{[^{}\n]*\}", "_", text)
            if " " in text.strip():
                yield token.start[0], text


def find_uses(path: Path) -> list[Use]:
    """Return the uses in a file of Python or Markdown, in order."""
    content = path.read_text(encoding="utf-8")
    uses = []
    for line, raw in python_texts(content) if path.suffix == ".py" else [(1, content)]:
        text = FENCE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), raw)
        allowed = [range(*match.span()) for match in ALLOWED.finditer(text)]
        found = [match for match in WORD.finditer(text) if not any(match.start(1) in span for span in allowed)]
        found += OPENING.finditer(text)
        uses += [Use(path, line + text.count("\n", 0, match.start(1)), match[1].lower()) for match in found]
    return sorted(uses)


def shown(path: Path) -> Path:
    """Return the path from the project's folder, if it is in it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def table(uses: Iterable[Use]) -> str:
    """Return the number of uses as a Markdown table."""
    counts = Counter((folder, use.word) for use in uses for folder in (shown(use.path).parent.as_posix(), "all"))
    rows = [["folder", *WORDS, "all"], ["---"] + ["---:"] * (len(WORDS) + 1)]
    for folder in sorted({folder for folder, _ in counts}, key=lambda folder: (folder == "all", folder)):
        row = [counts[folder, word] for word in WORDS]
        rows.append([folder, *map(str, row), str(sum(row))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the uses or their number; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / part for part in PARTS])
    parser.add_argument("--count", action="store_true", help="print the number of uses, by folder and word")
    given = parser.parse_args(arguments)
    files = sorted({file.resolve() for path in given.paths for file in (path, *path.rglob("*")) if file.is_file()})
    uses = [use for file in files if file.suffix in {".py", ".md"} for use in find_uses(file)]
    lines = [f"{shown(use.path)}:{use.line}: {use.word}: {WORDS[use.word]}" for use in uses]
    print(table(uses) if given.count else "\n".join(lines))
    return 1 if uses else 0


if __name__ == "__main__":
    sys.exit(main())
