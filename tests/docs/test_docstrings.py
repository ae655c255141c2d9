"""Docstrings name what exists: each attribute that they list, and each name in backticks."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.pages import DOCS

SOURCE: Final = DOCS.parent / "src" / "jetspark"
OTHERS: Final = {
    "DEL",
    "DATA_SOURCE_NOT_FOUND",
    "IN",
    "PATH",
    "Trigger",
    "Once",
    "asyncio",
    "wait_for",
    "checkpointLocation",
    "lame_duck_duration",
    "lastProgress",
    "recentProgress",
    "processAllAvailable",
    "pyspark_jetstream",
    "readStream",
    "traceparent",
}
"""Names of Python, NATS and Spark that docstrings use and the code does not."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(path: Path) -> Iterator[tuple[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, ast.get_docstring(node) or ""


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that code uses, and the words of its short strings: options and values are names, too."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield from name.split(".")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if len(text) < 60:
                yield from re.findall(r"\w+", text)


@cache
def all_names() -> frozenset[str]:
    files = {part for path in modules() for part in path.relative_to(SOURCE.parent).with_suffix("").parts}
    return frozenset(
        files | set(dir(builtins)) | OTHERS | {name for path in modules() for name in names_in(tree_of(path))}
    )


def listed_attributes(docstring: str) -> list[str]:
    found = re.search(r"Attributes\n-+\n(.*?)(?:\n\n\w+\n-+|\Z)", docstring, re.DOTALL)
    heads = [line.split(":")[0] for line in found[1].splitlines() if re.match(r"\w", line)] if found else []
    return [name.strip() for head in heads for name in head.split(",")]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_docstrings_name_what_exists(path: Path) -> None:
    missing: list[str] = []
    for node, text in docstrings(path):
        if isinstance(node, ast.ClassDef):
            own = set(names_in(node))
            missing += [f"{node.name} has no attribute {name}" for name in listed_attributes(text) if name not in own]
        for name in re.findall(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)", text):
            if not all_names().issuperset(name.rstrip(".").split(".")):
                missing.append(f"nothing is called {name} (line {getattr(node, 'lineno', 1)})")
    assert missing == []


def test_a_list_of_attributes_is_read() -> None:
    text = "A class.\n\nAttributes\n----------\na, b\n    Two.\nc: int\n    One.\n\nNotes\n-----\nd\n"
    assert listed_attributes(text) == ["a", "b", "c"]
