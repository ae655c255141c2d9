"""Parsed modules of `src`: their definitions, imports and public names.

The source is parsed and not imported, so that the texts do not depend on the Python version or on the installed extras.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final

__all__ = ["CONSTANT", "SRC", "Definition", "FunctionNode", "Module", "assignments", "load"]

SRC: Final = Path(__file__).parents[1] / "src"
CONSTANT: Final = re.compile(r"_*[A-Z][A-Z0-9_]*")
"""The name of a constant."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Definition:
    """The place that defines a name: a class, a function, or an assignment with the docstring that follows it."""

    module: Module
    name: str
    node: ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign
    text: str = ""

    @property
    def qualified(self) -> str:
        """Name with the module that defines it."""
        return f"{self.module.name}.{self.name}"


@dataclass(frozen=True, eq=False)
class Module:
    """A parsed module."""

    name: str
    path: Path
    source: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @property
    def doc(self) -> str:
        """Its docstring."""
        return ast.get_docstring(self.tree) or ""

    @cached_property
    def _definitions(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for name, node, text in assignments(self.tree.body):
            found[name] = Definition(self, name, node, text)
        for statement in _flat(self.tree.body):
            if isinstance(statement, ast.ClassDef | FunctionNode):
                found[statement.name] = Definition(self, statement.name, statement)
        return found

    @cached_property
    def _imports(self) -> dict[str, tuple[str, str]]:
        """Local name -> module and name there; only `from` imports."""
        found: dict[str, tuple[str, str]] = {}
        for node in _flat(self.tree.body):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    names = load(node.module).names if alias.name == "*" else [alias.name]
                    found |= {alias.asname or name: (node.module, name) for name in names}
        return found

    @cached_property
    def names(self) -> list[str]:
        """Public names: those of `__all__`; without one, those that are imported with a redundant alias."""
        for node in _flat(self.tree.body):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
                assert isinstance(node, ast.Assign)
                return [str(each) for each in ast.literal_eval(node.value)]
        if "__all__" in self._imports:
            return load(self._imports["__all__"][0]).names
        aliases = [alias for node in _flat(self.tree.body) if isinstance(node, ast.ImportFrom) for alias in node.names]
        return sorted(alias.name for alias in aliases if alias.asname == alias.name and alias.name[0] != "_")

    def resolve(self, name: str) -> Definition | None:
        """Return the definition of a name that the module uses; None if it is not in this source tree."""
        if name in self._definitions:
            return self._definitions[name]
        if name in self._imports:
            module, original = self._imports[name]
            if _path_of(module) is not None and _path_of(f"{module}.{original}") is None:
                return load(module).resolve(original)
        return None

    def text(self, node: ast.AST) -> str:
        """Return the source of a node in one line."""
        assert isinstance(node, (ast.expr, ast.arg))
        assert node.end_lineno is not None
        # ast.get_source_segment splits the source at each call.
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        if len(lines) == 1:
            return lines[0].decode()
        text = " ".join(line.decode().strip() for line in lines)
        return re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", text))

    @cached_property
    def _lines(self) -> list[bytes]:
        return self.source.encode().split(b"\n")

    def value(self, node: ast.expr) -> str:
        """Return the source of a default; constants of the module are replaced by their values."""
        text = self.text(node)
        for name in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}:
            found = self.resolve(name) if CONSTANT.fullmatch(name) else None
            if found and isinstance(found.node, (ast.Assign, ast.AnnAssign)) and found.node.value is not None:
                value = found.module.value(found.node.value)
                if isinstance(found.node.value, ast.BinOp) and not isinstance(node, ast.Name):
                    value = f"({value})"
                text = re.sub(rf"(?<![\w.\"']){name}\b", lambda _, value=value: value, text)  # type: ignore[misc]
        return text


@cache
def load(name: str) -> Module:
    """Read a module. Raises FileNotFoundError for one that is not in the source tree."""
    path = _path_of(name)
    if path is None:
        raise FileNotFoundError(f"{name} is not below {SRC}")
    source = path.read_text(encoding="utf-8")
    return Module(name, path, source, ast.parse(source, str(path)))


def _path_of(module: str) -> Path | None:
    base = SRC / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module; those in the first branch of `if` and `try` are included."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from _flat(node.body)
        else:
            yield node


def assignments(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, ast.Assign | ast.AnnAssign, str]]:
    """Assignments to a name, or to an attribute of `of`, with the docstring that follows each."""
    statements = list(_flat(body))
    for node, after in zip(statements, [*statements[1:], None], strict=True):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            text = after.value.value
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if not of and isinstance(target, ast.Name):
                yield target.id, node, text
            elif of and isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == of:
                yield target.attr, node, text
