"""Which changes a source allows: of one operator, one constant or one statement each.

Code that no test can check is not changed: docstrings, annotations, `__all__` and `__slots__`, blocks under
`TYPE_CHECKING`, assertions, the texts of errors and logs, what declares the form of a class (`slots`, `frozen`), and
the values of a plain `Enum`, which are labels. Those of a `StrEnum` are words that somebody else reads.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Change", "changes_of"]

_OTHER: Final[dict[type[ast.AST], tuple[str, str]]] = {
    getattr(ast, name): (old, new)
    for name, old, new in [
        *(("Lt", "<", "<="), ("LtE", "<=", "<"), ("Gt", ">", ">="), ("GtE", ">=", ">"), ("Eq", "==", "!=")),
        *(("NotEq", "!=", "=="), ("Is", "is", "is not"), ("IsNot", "is not", "is"), ("In", "in", "not in")),
        *(("NotIn", "not in", "in"), ("And", "and", "or"), ("Or", "or", "and"), ("Add", "+", "-"), ("Sub", "-", "+")),
        *(("Mult", "*", "//"), ("FloorDiv", "//", "*"), ("Div", "/", "*"), ("Mod", "%", "*")),
        *(("LShift", "<<", ">>"), ("RShift", ">>", "<<")),
    ]
}
"""For each operator how it is written, and another one. `|` stays: it mostly joins types."""
_DECLARES: Final = {"eq", "frozen", "gc", "kw_only", "repr", "slots", "weakref", "weakref_slot"}
_LEFT_ALONE: Final = {"Literal", "TypeVar", "cast", "debug", "error", "exception", "info", "warn", "warning"}
_NAMES: Final = {"__all__", "__slots__", "__match_args__"}


@dataclass(frozen=True)
class Change:
    """Puts `text` where a source has the bytes from `start` to `end`."""

    start: int
    end: int
    text: str
    line: int
    function: int | None
    """The line where the outermost function begins that holds it; None outside of all functions."""

    def apply(self, source: str) -> str:
        """Return the source with this change."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def shown(self, source: str) -> str:
        """Return the lines that it removes and adds."""
        lines = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))


def changes_of(source: str) -> list[Change]:
    """Return every change that a source allows, in the order of the source."""
    found = _Source(source).walk(ast.parse(source), None)
    return sorted(found, key=lambda change: (change.start, change.end, change.text))


_Edit = tuple[int, int, str]


class _Source:
    """A source as bytes: the places of a syntax tree are lines, and bytes within them."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", self._data))]

    def walk(self, node: ast.AST, function: int | None) -> Iterator[Change]:
        """Yield the changes of a node and of its parts."""
        for begin, end, text in (*self._operators(node), *self._statements(node)):
            yield Change(begin, end, text, self._data.count(b"\n", 0, begin) + 1, function)
        inside = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function is None:
            inside = min(each.lineno for each in (node, *node.decorator_list))
        body = getattr(node, "body", ())  # the defaults of a function belong to what is around it
        for child in _parts(node):
            yield from self.walk(child, inside if isinstance(body, list) and child in body else function)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _between(self, left: ast.expr, right: ast.expr, operator: ast.AST, suffix: str = "") -> Iterator[_Edit]:
        old, new = _OTHER.get(type(operator), ("", ""))
        begin, end = self._span(left)[1], self._span(right)[0]
        match = re.search(re.escape(old + suffix).replace(r"\ ", r"\s+").encode(), self._data[begin:end])
        if old and match is not None:
            yield begin + match.start(), begin + match.end(), new + suffix

    def _operators(self, node: ast.AST) -> Iterator[_Edit]:
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
                    yield from self._between(left, right, operator)
            case ast.BoolOp():
                for left, right in itertools.pairwise(node.values):
                    yield from self._between(left, right, node.op)
            case ast.BinOp():
                yield from self._between(node.left, node.right, node.op)
            case ast.AugAssign():
                yield from self._between(node.target, node.value, node.op, "=")
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                begin, _ = self._span(node)
                yield begin, begin + (3 if isinstance(node.op, ast.Not) else 1), ""
            case ast.If() | ast.While() | ast.IfExp():
                begin, end = self._span(node.test)
                if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant) and not _is_for_types(node):
                    yield begin, end, f"not ({self._data[begin:end].decode()})"
            case ast.Constant():
                yield from ((*self._span(node), repr(value)) for value in _other_values(node.value))

    def _statements(self, node: ast.AST) -> Iterator[_Edit]:
        match node:
            case (
                ast.Expr(value=ast.Call() | ast.Await())
                | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
                | ast.AnnAssign(target=ast.Attribute(), value=ast.expr())
                | ast.AugAssign()
                | ast.Delete()
                | ast.Raise()
            ):
                yield *self._span(node), "pass"
            case ast.Continue():
                yield *self._span(node), "break"
            case ast.Break():
                yield *self._span(node), "continue"
            case ast.Return(value=ast.expr()):
                yield *self._span(node), "return None"


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node where changes are allowed."""
    match node:
        case ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return []  # the parts of a JoinedStr have no places of their own before Python 3.12
        case ast.If() if _is_for_types(node):
            return list(node.orelse)
        case ast.Assign() if any(isinstance(each, ast.Name) and each.id in _NAMES for each in node.targets):
            return []
        case ast.Call(func=value) | ast.Subscript(value=value):
            name = str(getattr(value, "id", getattr(value, "attr", "")))
            if name in _LEFT_ALONE or name.endswith(("Error", "Warning")):
                return []
        case ast.keyword(arg=name) if name in _DECLARES:
            return []
        case ast.arg():
            return []
        case ast.ClassDef(bases=[ast.Name(id="Enum") | ast.Attribute(attr="Enum")]):
            return [child for child in node.body if not isinstance(child, ast.Assign)]
    annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
    return [child for child in ast.iter_child_nodes(node) if child not in annotations]


def _is_for_types(node: ast.If | ast.While | ast.IfExp) -> bool:
    return "TYPE_CHECKING" in ast.dump(node.test)


def _other_values(value: object) -> Iterator[object]:
    """Yield the constant to put in a constant's place. A text for people, which has spaces between words, stays."""
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
        case str() if not re.search(r"\w \w", value):
            yield "X" + value
        case bytes() if not re.search(rb"\w \w", value):
            yield b"X" + value
