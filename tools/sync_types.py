"""The translation of a type of the asyncio front to the blocking one, and of a value of that type."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

__all__ = ["Types", "parts"]

_ITERATORS: Final = {"AsyncIterator": "Iterator", "AsyncGenerator": "Iterator", "AsyncIterable": "Iterable"}
_OF_THE_FRONT: Final = frozenset({"Msg", "Subscription"})
"""Classes that both fronts have, and that the connection makes of its own front already."""


@dataclass(frozen=True)
class Types:
    """The names that the translation depends on."""

    wrapped: frozenset[str]
    """Classes that are translated."""
    callbacks: frozenset[str]
    """Names of types of callbacks."""

    def front(self, kind: ast.expr) -> str:
        """Return a type of the asyncio front as the blocking front has it."""
        return ast.unparse(_ToFront().visit(ast.parse(ast.unparse(kind), mode="eval").body))

    def is_callback(self, kind: ast.expr) -> bool:
        """Whether a parameter of that type takes a callback."""
        return bool((self.callbacks | {"Callable"}) & set(parts(kind, depth=1)))

    def is_of_the_front(self, kind: ast.expr) -> bool:
        """Whether a parameter takes what the connection makes of its own front: the same at run time, not in types."""
        return bool(_OF_THE_FRONT & set(parts(kind)))

    def wrap(self, kind: ast.expr, value: str) -> str:
        """Return the expression that makes a value of the blocking front from one of the asyncio front."""
        names = set(parts(kind))
        if names & set(_ITERATORS) and parts(kind)[0] in _ITERATORS:
            assert isinstance(kind, ast.Subscript)
            item = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
            return f"blocking_iterator(self._connection, {value}, lambda each: {self.wrap(item, 'each')})"
        if ast.unparse(kind) == "Connection":
            return "self._connection"
        if names & _OF_THE_FRONT:
            return f"cast({self.front(kind)!r}, {value})"
        if not names & self.wrapped:
            return value
        match kind:
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in self.wrapped:
                return f"{name}(self._connection, {value})"
            case ast.Subscript(value=ast.Name(id="list"), slice=item):
                return f"[{self.wrap(item, 'each')} for each in {value}]"
            case ast.BinOp(left=some, op=ast.BitOr(), right=ast.Constant(value=None)):
                return f"None if (found := {value}) is None else {self.wrap(some, 'found')}"
        raise ValueError(f"no translation for a value of type {ast.unparse(kind)}")


def parts(kind: ast.expr, depth: int | None = None) -> list[str]:
    """Return the names in a type, from the outside in; with depth 1 only those of the union that it is."""
    match kind:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.Constant(value=None):
            return ["None"]
        case ast.BinOp(left=left, right=right):
            return [*parts(left, depth), *parts(right, depth)]
        case ast.Subscript(value=value, slice=inner):
            return [*parts(value, depth), *([] if depth == 1 else parts(inner))]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return [name for item in items for name in parts(item, depth)]
    return []


class _ToFront(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name):
            if node.value.id == "Awaitable":
                return node.slice
            if node.value.id in _ITERATORS:
                item = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
                return ast.Subscript(ast.Name(_ITERATORS[node.value.id]), item)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return node.left if ast.dump(node.left) == ast.dump(node.right) else node
