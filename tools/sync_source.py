"""Translates a module of the asyncio front into one of the blocking front, by its syntax tree (see `make_sync`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from textwrap import indent
from typing import Final

from tools.sync_types import Types, parts

__all__ = ["ByHand", "Module", "Package", "translate"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_SOURCE: Final = "jetspark.aio.jetstream."
_FACADES: Final = frozenset({"ConsumeContext"})
"""Handles over a core (`sync_facade`); the method that is written by hand returns the core."""
_PASSED_ON: Final = frozenset({"__len__", "__bool__", "__contains__", "__getitem__"})
"""Special methods that only look, as properties do."""
_LEFT_OUT: Final = frozenset({"__init__", "__repr__", "__await__", "__del__"})
_PLAIN: Final = re.compile(r"(Error|Enum|Struct|Protocol|TypedDict|NamedTuple)$")
"""Bases of classes that are values, the same on both fronts."""


@dataclass(frozen=True)
class ByHand:
    """The part of a class that is written by hand."""

    base: str
    """`module:Class` that has the methods."""
    methods: frozenset[str] = frozenset()
    """Methods whose work is done by a method of `base` with an underscore before its name."""
    left_out: frozenset[str] = frozenset()
    """Methods that are inherited from `base`."""


@dataclass
class Module:
    """A module of the asyncio front."""

    name: str
    tree: ast.Module
    public: frozenset[str] = field(init=False)
    classes: dict[str, ast.ClassDef] = field(init=False)
    callbacks: dict[str, ast.Assign] = field(init=False)

    def __post_init__(self) -> None:
        """Find what is public."""
        self.public = frozenset(_all_of(self.tree))
        found = [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name in self.public]
        self.classes = {node.name: node for node in found if not _is_value(node)}
        self.callbacks = {
            name: node for name, node in _assignments(self.tree) if name in self.public and "Callable[" in _text(node)
        }


@dataclass
class Package:
    """All modules, and what of them is written by hand."""

    modules: dict[str, Module]
    internal: frozenset[str]
    handwritten: frozenset[str]
    by_hand: dict[str, ByHand]
    types: Types = field(init=False)

    def __post_init__(self) -> None:
        """Collect the names that the translation depends on."""
        wrapped = {name for module in self.modules.values() for name in module.classes}
        callbacks = {name for module in self.modules.values() for name in module.callbacks}
        self.types = Types(frozenset(wrapped), frozenset(callbacks | {"Callback"}))


def translate(module: Module, package: Package) -> str:
    """Return the blocking module, empty when the module has no public class."""
    if module.name != "__init__" and not module.classes:
        return ""
    return "\n".join(_Translation(module, package).lines())


class _Translation:
    def __init__(self, module: Module, package: Package) -> None:
        self._module = module
        self._types = package.types
        self._internal = package.internal
        self._handwritten = package.handwritten
        self._by_hand = package.by_hand
        self._handmade: frozenset[str] = frozenset()
        self._made_here: set[str] = set()  # wrapped classes that are needed when the code runs

    def lines(self) -> Iterator[str]:
        classes = [line for node in self._module.classes.values() for line in self._class(node)]
        yield from self._head()
        yield from self._imports("\n".join(classes))
        yield f"\n__all__ = {sorted(self._module.public)!r}"
        for _, node in _assignments(self._module.tree):
            if isinstance(node.value, ast.Call) and _text(node.value.func) in {"TypeVar", "ParamSpec"}:
                yield f"\n{_text(node)}"
        for name, node in self._module.callbacks.items():
            yield f"\n{name} = {self._types.front(node.value)}"
            yield from _docstring(_text_after(self._module.tree, node))
        yield from classes

    def _head(self) -> Iterator[str]:
        source = "jetspark.aio.jetstream" + ("" if self._module.name == "__init__" else f".{self._module.name}")
        doc = (ast.get_docstring(self._module.tree) or "").splitlines()[0].replace("asyncio", "the blocking front")
        if self._module.name == "__init__":
            doc = "JetStream, blocking."
        yield f'"""{doc}\n\nMade by `tools/make_sync.py` from `{source}`: change that, then `make sync`.\n"""'
        yield "from __future__ import annotations"

    def _imports(self, text: str) -> Iterator[str]:
        if self._module.name != "__init__":
            yield "from collections.abc import Callable, Iterator"
            yield "from typing import TYPE_CHECKING, Any, Self, cast"
            yield f"from jetspark.aio.jetstream import {self._module.name} as aio"
            yield "from jetspark.sync.loop_proxy import LoopProxy, blocking_iterator"
            own = self._module.public - self._module.classes.keys() - self._module.callbacks.keys()
            if own:
                yield f"from jetspark.aio.jetstream.{self._module.name} import {', '.join(sorted(own))}"
        for name in self._module.classes:
            if name in self._by_hand:
                where, _, base = self._by_hand[name].base.partition(":")
                yield f"from {where} import {base}"
        later = []
        for node, for_types in _imports_of(self._module.tree):
            for alias in node.names:
                line = f"{self._import_of(node)}{alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                name = alias.asname or alias.name
                if not for_types or name in self._made_here:
                    yield line
                elif re.search(rf"\b{name}\b", text):
                    later.append(line)
        if later:
            yield "if TYPE_CHECKING:\n" + "\n".join(f"    {line}" for line in later)

    def _import_of(self, node: ast.Import | ast.ImportFrom) -> str:
        if isinstance(node, ast.Import):
            return "import "
        module = node.module or ""
        if module.startswith(_SOURCE):
            name = module.removeprefix(_SOURCE).partition(".")[0]
            if name not in self._internal:
                room = "_handwritten" if name in self._handwritten else "jetstream"
                module = f"jetspark.sync.{room}.{module.removeprefix(_SOURCE)}"
        elif module.startswith("jetspark.aio."):
            module = module.replace("jetspark.aio.", "jetspark.sync.", 1)
        return f"from {module} import "

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        bases = [_text(base) for base in node.bases if parts(base)[0] in self._types.wrapped | {"Generic"}]
        if not any(base.partition("[")[0] in self._types.wrapped for base in bases):
            bases.insert(0, "LoopProxy")
        left_out = self._handmade = frozenset[str]()
        if (by_hand := self._by_hand.get(node.name)) is not None:
            bases.insert(0, by_hand.base.partition(":")[2])
            left_out, self._handmade = by_hand.left_out, by_hand.methods
        yield from (f"@{_text(decorator)}" for decorator in node.decorator_list)
        yield f"class {node.name}({', '.join(bases)}):"
        yield from _docstring(ast.get_docstring(node), 1)
        generic = next((base for base in bases if base.startswith("Generic[")), "").removeprefix("Generic")
        yield f"    _inner: aio.{node.name}{generic}"
        for statement in node.body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    name = _blocking_name(statement.name)
                    if name not in left_out and statement.name not in _LEFT_OUT and _is_public(statement.name):
                        yield from self._method(statement, name)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if _is_public(name):
                    yield from self._property(name, kind, _text_after(node, statement))

    def _property(self, name: str, kind: ast.expr, doc: str | None) -> Iterator[str]:
        yield f"    @property\n    def {name}(self) -> {self._types.front(kind)}:"
        yield from _docstring(doc, 2)
        yield f"        return {self._wrap(kind, f'self._inner.{name}')}"

    def _method(self, node: Function, name: str) -> Iterator[str]:
        decorators = [_text(decorator) for decorator in node.decorator_list]
        if node.returns is None or any(decorator not in {"overload", "property"} for decorator in decorators):
            raise ValueError(f"{node.name}: no translation for its decorators, or no return type")
        kind = node.returns
        if "overload" in decorators:
            yield f"    @overload\n    def {name}({self._parameters(node.args)}) -> {self._types.front(kind)}: ..."
            return
        if decorators:
            yield from self._property(name, kind, ast.get_docstring(node))
            return
        yield f"    def {name}({self._parameters(node.args)}) -> {self._types.front(kind)}:"
        yield from _docstring(ast.get_docstring(node), 2)
        call = f"self._inner.{node.name}({self._arguments(node.args)})"
        if name in self._handmade:
            call = f"self._{name}({self._plain_arguments(node.args)})"
            if _text(kind) in _FACADES:
                self._made_here.add(_text(kind))
                call = f"{_text(kind)}({call})"
            body = [call if _text(kind) == "None" else f"return {call}"]
        elif name == "__iter__" and _text(kind) == "Self":
            body = ["return self"]
        elif name == "__next__":
            body = ["try:", f"    return {self._wrap(kind, f'self._call({call})')}"]
            body += ["except StopAsyncIteration:", "    raise StopIteration from None"]
        elif _is_generator(node):
            body = [f"return {self._wrap(kind, call)}"]
        else:
            if isinstance(node, ast.AsyncFunctionDef):
                call = f"self._call({call})"
            elif name not in _PASSED_ON:
                call = f"self._run(lambda: {call})"
            if _text(kind) == "Self":
                body = [call, "return self"]
            else:
                body = [call if _text(kind) == "None" else f"return {self._wrap(kind, call)}"]
        yield from (f"        {line}" for line in body)

    def _wrap(self, kind: ast.expr, value: str) -> str:
        self._made_here |= self._types.wrapped & set(parts(kind))
        return self._types.wrap(kind, value)

    def _parameters(self, arguments: ast.arguments) -> str:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None and any(name.startswith("_") for name in parts(default)):
                raise ValueError(f"the default {_text(default)} is private to its module")
        copied = ast.parse(f"def f({_text(arguments)}): ...").body[0]
        assert isinstance(copied, ast.FunctionDef)
        for argument in _each_argument(copied.args):
            if argument.annotation is not None:
                if self._types.wrapped & set(parts(argument.annotation)):
                    raise ValueError(f"parameter {argument.arg} takes a translated class")
                argument.annotation = ast.parse(self._types.front(argument.annotation), mode="eval").body
        return _text(copied.args)

    def _plain_arguments(self, arguments: ast.arguments) -> str:
        return self._arguments(arguments, lambda argument: argument.arg)

    def _arguments(self, arguments: ast.arguments, passed: Callable[[ast.arg], str] | None = None) -> str:
        passed = passed or self._argument
        given = [passed(argument) for argument in (*arguments.posonlyargs, *arguments.args)[1:]]
        if arguments.vararg is not None:
            given.append(f"*{arguments.vararg.arg}")
        given += [f"{argument.arg}={passed(argument)}" for argument in arguments.kwonlyargs]
        if arguments.kwarg is not None:
            given.append(f"**{arguments.kwarg.arg}")
        return ", ".join(given)

    def _argument(self, argument: ast.arg) -> str:
        if argument.annotation is None:
            return argument.arg
        if not self._types.is_callback(argument.annotation):
            return f"cast(Any, {argument.arg})" if self._types.is_of_the_front(argument.annotation) else argument.arg
        threaded = f"self._connection.in_callback_thread({argument.arg})"
        optional = "None" in parts(argument.annotation, depth=1)
        return f"None if {argument.arg} is None else {threaded}" if optional else threaded


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _all_of(tree: ast.Module) -> list[str]:
    for name, node in _assignments(tree):
        if name == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.Assign]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def _imports_of(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import, and whether it is only there for types."""
    for node in tree.body:
        if isinstance(node, ast.If) and _text(node.test) == "TYPE_CHECKING":
            yield from ((each, True) for each in node.body if isinstance(each, (ast.Import, ast.ImportFrom)))
        elif isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
            yield node, False


def _is_value(node: ast.ClassDef) -> bool:
    """Whether a class is a value (a dataclass, an error), which needs no translation."""
    if any("dataclass" in _text(decorator) for decorator in node.decorator_list):
        return True
    return any(_PLAIN.search(parts(base)[0]) for base in node.bases)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _blocking_name(name: str) -> str:
    return {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__anext__": "__next__"}.get(
        name, name
    )


def _is_generator(node: Function) -> bool:
    inner = (each for statement in node.body for each in ast.walk(statement))
    return isinstance(node, ast.AsyncFunctionDef) and any(isinstance(each, ast.Yield) for each in inner)


def _each_argument(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _text_after(parent: ast.Module | ast.ClassDef, node: ast.stmt) -> str | None:
    """Return the string after a statement that describes it."""
    place = parent.body.index(node) + 1
    if place < len(parent.body):
        match parent.body[place]:
            case ast.Expr(value=ast.Constant(value=str(text))):
                return text
    return None


def _docstring(text: str | None, depth: int = 0) -> Iterator[str]:
    if text is None:
        return
    for before, after in (("async for ", "for "), ("async with ", "with "), ("async def ", "def "), ("await ", "")):
        text = text.replace(before, after)
    prefix = "r" if "\\" in text else ""
    lines = f'{prefix}"""{text}' + ('\n"""' if "\n" in text else '"""')
    yield indent(lines, "    " * depth)
