"""Describes public names by their source: signatures, and the first sentences of docstrings."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from tools.parsed_modules import CONSTANT, Definition, FunctionNode, Module, assignments

__all__ = ["Entry", "Member", "first_sentence", "named_types", "public_entry"]

_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|\Z)", re.DOTALL)
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_TYPE: Final = re.compile(r"(?<![\w.])[A-Z]\w*")
_PARAMETERS: Final = re.compile(r"^\s*(Parameters\n\s*-+|Args:)$", re.MULTILINE)
_FIELD_CALLS: Final = frozenset({"field", "msgspec.field"})
_PROPERTIES: Final = frozenset({"property", "cached_property"})
_DATA_BASES: Final = frozenset({"TypedDict", "NamedTuple", "msgspec.Struct"})
_SUPPORTED: Final = {
    "__enter__": "with",
    "__aenter__": "async with",
    "__iter__": "for",
    "__aiter__": "async for",
    "__next__": "next()",
    "__anext__": "anext()",
    "__await__": "await",
    "__len__": "len()",
    "__contains__": "in",
    "__getitem__": "[key]",
    "__setitem__": "[key] = value",
    "__delitem__": "del [key]",
    "__bool__": "bool()",
    "__str__": "str()",
    "__bytes__": "bytes()",
    "__call__": "call",
    "__arrow_c_stream__": "Arrow stream",
}
"""Special methods that users rely on, and how they use them."""


@dataclass(frozen=True, slots=True)
class Member:
    """A public name of a class.

    Attributes
    ----------
    name
        The name.
    signature
        Name, parameters with types and defaults, and the type of the result; or name, type and default.
    doc
        First sentence of its documentation, empty if it has none.
    """

    name: str
    signature: str
    doc: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A public name of a module.

    Attributes
    ----------
    name, signature, doc
        As for `Member`.
    members
        Public names of a class: fields in their order, then methods and properties by name.
    supports
        Statements and functions that take an object of the class.
    unknown
        Names that the docstring of the class describes, and that the class does not have.
    """

    name: str
    signature: str
    doc: str
    members: tuple[Member, ...] = ()
    supports: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def first_sentence(doc: str) -> str:
    """Return the first sentence of a docstring in one line; a text without a full stop is returned to its first gap."""
    paragraph = " ".join(doc.strip().partition("\n\n")[0].split())
    found = _SENTENCE.match(paragraph)
    return found[0] if found else paragraph


def public_entry(found: Definition, name: str, listed: Container[Definition] = ()) -> Entry:
    """Describe a definition under its public name. Names of bases that are in `listed` are left out."""
    module, node = found.module, found.node
    if isinstance(node, ast.ClassDef):
        return _class_entry(found, name, listed)
    if isinstance(node, FunctionNode):
        return Entry(name, _call(module, node), first_sentence(ast.get_docstring(node) or ""))
    value = f" = {module.text(node.value)}" if node.value is not None else ""
    return Entry(name, f"{name}{value}", first_sentence(found.text))


def named_types(found: Definition, listed: Container[Definition] = ()) -> set[Definition]:
    """Return the classes and aliases of the source tree that the signatures of a definition name."""
    entry = public_entry(found, found.name, listed)
    modules = {found.module}
    if isinstance(found.node, ast.ClassDef):
        modules |= {each.module for each in _ancestors(found, listed)}
    signatures = [entry.signature, *(member.signature for member in entry.members)]
    words = {word for signature in signatures for word in _TYPE.findall(signature)}
    resolved = {module.resolve(word) for module in modules for word in words}
    return {each for each in resolved if each is not None and not _is_variable(each)}


def _is_variable(found: Definition) -> bool:
    """Whether it is a variable of types, or a constant."""
    value = getattr(found.node, "value", None)
    made = isinstance(value, ast.Call) and found.module.text(value.func) == "TypeVar"
    return made or CONSTANT.fullmatch(found.name) is not None


# -- classes ---------------------------------------------------------------------------------------------------------


def _class_entry(found: Definition, name: str, listed: Container[Definition]) -> Entry:
    assert isinstance(found.node, ast.ClassDef)
    fields: dict[str, Member] = {}
    calls: dict[str, Member] = {}
    docs: dict[str, str] = {}  # a name that overrides another one may leave its documentation to it
    described: set[str] = set()
    special: set[str] = set()
    ancestors = _ancestors(found, listed)
    for each in reversed(_ancestors(found)):
        assert isinstance(each.node, ast.ClassDef)
        sections = _sections(ast.get_docstring(each.node) or "")
        borrowed = _borrowed(each)
        for kind, members in ((fields, _fields(each, sections)), (calls, _methods(each))):
            for member in members:
                docs[member.name] = member.doc or borrowed.get(member.name) or docs.get(member.name, "")
                if each in ancestors:
                    kind[member.name] = Member(member.name, member.signature, docs[member.name])
        if each in ancestors:
            described |= {key for key in sections["Attributes"] if not key.startswith("_")}
            special |= {node.name for node in each.node.body if isinstance(node, FunctionNode)}
    shown = [member for name, member in fields.items() if name not in calls]
    shown += [calls[key] for key in sorted(calls)]
    return Entry(
        name,
        _class_signature(name, ancestors, listed),
        first_sentence(ast.get_docstring(found.node) or ""),
        (*_constructor(ancestors), *shown),
        tuple(text for method, text in _SUPPORTED.items() if method in special),
        tuple(sorted(described - {member.name for member in shown})),
    )


def _borrowed(found: Definition) -> dict[str, str]:
    """Documentation of the fields of a typed dictionary, from the classes and functions that its docstring names."""
    assert isinstance(found.node, ast.ClassDef)
    if not any(text == "TypedDict" for each in _ancestors(found) for text, _ in _bases(each)):
        return {}
    docs: dict[str, str] = {}
    for name in re.findall(r"`(\w+)`", ast.get_docstring(found.node) or ""):
        source = found.module.resolve(name)
        if source is not None and isinstance(source.node, FunctionNode):
            docs |= _sections(ast.get_docstring(source.node) or "")["Parameters"]
        elif source is not None:
            docs |= {member.name: member.doc for member in public_entry(source, name).members}
    return docs


def _bases(found: Definition) -> Iterator[tuple[str, Definition | None]]:
    assert isinstance(found.node, ast.ClassDef)
    for base in found.node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        yield found.module.text(base), found.module.resolve(plain.id) if isinstance(plain, ast.Name) else None


def _ancestors(found: Definition, listed: Container[Definition] = ()) -> list[Definition]:
    """The class and its bases up to those that are listed, in the order of the attribute search."""
    bases = [base for _, base in _bases(found) if base is not None and base not in listed]
    sequences = [*(_ancestors(base, listed) for base in bases), bases]
    merged = [found]
    while sequences := [each for each in sequences if each]:
        heads = [each[0] for each in sequences]
        chosen = next(head for head in heads if not any(head in each[1:] for each in sequences))
        merged.append(chosen)
        sequences = [[each for each in sequence if each is not chosen] for sequence in sequences]
    return merged


def _class_signature(name: str, ancestors: list[Definition], listed: Container[Definition]) -> str:
    shown = []
    for each in ancestors:
        for text, base in _bases(each):
            outside = base is None and text.partition("[")[0] not in {"Generic", "Protocol", "msgspec.Struct", "object"}
            if (outside or (base is not None and base in listed)) and text not in shown:
                shown.append(text)
    return f"class {name}({', '.join(shown)})" if shown else f"class {name}"


def _constructor(ancestors: list[Definition]) -> list[Member]:
    """The constructor, if its documentation has its parameters; otherwise calls of the library make the objects."""
    for each in ancestors:
        assert isinstance(each.node, ast.ClassDef)
        for node in each.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                own = ast.get_docstring(node) or ""
                docs = f"{ast.get_docstring(each.node) or ''}\n{own}"
                if not each.name.endswith("Error") and not _PARAMETERS.search(docs):
                    return []
                signature = f"__init__({_parameters(each.module, node.args, method=True)})"
                return [Member("__init__", signature, first_sentence(own) or "Constructor.")]
    return []


def _sections(doc: str) -> dict[str, dict[str, str]]:
    """First sentences of the entries of the sections `Attributes` and `Parameters`, by section and name."""
    found: dict[str, dict[str, str]] = {"Attributes": {}, "Parameters": {}}
    lines, section, index = doc.splitlines(), "", 0
    while index < len(lines):
        line, index = lines[index], index + 1
        if index < len(lines) and line and _UNDERLINE.fullmatch(lines[index]):
            section, index = line.strip(), index + 1
        elif section in found and line and not line[0].isspace():
            start = index
            while index < len(lines) and (not lines[index].strip() or lines[index][0].isspace()):
                index += 1
            text = first_sentence(textwrap.dedent("\n".join(lines[start:index])))
            found[section] |= {name.strip(): text for name in line.split(",")}
    return found


def _is_data(found: Definition) -> bool:
    """Whether assignments in the class are the fields of its objects: a data class, struct or typed dictionary."""
    assert isinstance(found.node, ast.ClassDef)
    decorators = {found.module.text(each).partition("(")[0] for each in found.node.decorator_list}
    return "dataclass" in decorators or any(
        text in _DATA_BASES or (base is not None and _is_data(base)) for text, base in _bases(found)
    )


def _fields(found: Definition, sections: dict[str, dict[str, str]]) -> Iterator[Member]:
    """Public attributes that the class body or `__init__` assigns."""
    assert isinstance(found.node, ast.ClassDef)
    documented = sections["Parameters"] | sections["Attributes"]
    module = found.module
    for name, node, text in assignments(found.node.body):
        if name.startswith("_"):
            continue
        value = ""
        if node.value is not None:
            default = _default(module, node.value) if _is_data(found) else module.value(node.value)
            value = f" = {default}" if default else ""
        kind = f": {module.text(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
        yield Member(name, f"{name}{kind}{value}", first_sentence(text) or documented.get(name, ""))
    for init in found.node.body:
        if isinstance(init, ast.FunctionDef) and init.name == "__init__":
            yield from _instance_attributes(module, init, documented)


def _default(module: Module, node: ast.expr) -> str:
    """Return the default of a field, also of `field(...)`; empty if there is none."""
    if not (isinstance(node, ast.Call) and module.text(node.func) in _FIELD_CALLS):
        return module.value(node)
    for keyword in node.keywords:
        if keyword.arg == "default":
            return module.value(keyword.value)
        if keyword.arg == "default_factory":
            made = keyword.value
            text = module.text(made.body) if isinstance(made, ast.Lambda) else f"{module.text(made)}()"
            return {"dict()": "{}", "list()": "[]"}.get(text, text)
    return ""


def _instance_attributes(module: Module, init: ast.FunctionDef, documented: dict[str, str]) -> Iterator[Member]:
    types = {each.arg: module.text(each.annotation) for each in _arguments(init.args) if each.annotation is not None}
    for name, node, text in assignments(init.body, of="self"):
        if name.startswith("_"):
            continue
        kind = module.text(node.annotation) if isinstance(node, ast.AnnAssign) else ""
        value = node.value
        if not kind and isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
            kind = types.get(getattr(value.values[0], "id", ""), "").removesuffix(" | None")
        kind = kind or types.get(getattr(value, "id", ""), "") or _type_of(value)
        yield Member(name, f"{name}: {kind}" if kind else name, first_sentence(text) or documented.get(name, ""))


def _type_of(value: ast.expr | None) -> str:
    """Return the type of a constant or of a constructor's call, empty for another expression."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id[0].isupper():
        return value.func.id
    return type(value.value).__name__ if isinstance(value, ast.Constant) and value.value is not None else ""


def _methods(found: Definition) -> Iterator[Member]:
    assert isinstance(found.node, ast.ClassDef)
    for node in found.node.body:
        if not isinstance(node, FunctionNode) or node.name.startswith("_"):
            continue
        decorators = {found.module.text(each) for each in node.decorator_list}
        doc = first_sentence(ast.get_docstring(node) or "")
        if decorators & _PROPERTIES:
            kind = f": {found.module.text(node.returns)}" if node.returns is not None else ""
            yield Member(node.name, f"{node.name}{kind}", doc)
        elif not any(each.endswith((".setter", ".deleter")) for each in decorators):
            prefix = "".join(f"@{each} " for each in ("classmethod", "staticmethod") if each in decorators)
            bound = "staticmethod" not in decorators
            yield Member(node.name, prefix + _call(found.module, node, method=bound), doc)


# -- signatures ------------------------------------------------------------------------------------------------------


def _call(module: Module, node: FunctionNode, *, method: bool = False) -> str:
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) and not _is_generator(node) else ""
    result = f" -> {module.text(node.returns)}" if node.returns is not None else ""
    return f"{prefix}{node.name}({_parameters(module, node.args, method=method)}){result}"


def _is_generator(node: FunctionNode) -> bool:
    """Whether the call returns an iterator at once; functions inside do not count."""
    todo: list[ast.AST] = list(node.body)
    while todo:
        each = todo.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(each))
    return False


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def _parameters(module: Module, arguments: ast.arguments, *, method: bool) -> str:
    def shown(each: ast.arg, default: ast.expr | None = None, star: str = "") -> str:
        kind = f": {module.text(each.annotation)}" if each.annotation is not None else ""
        value = "" if default is None else f" = {module.value(default)}" if kind else f"={module.value(default)}"
        return f"{star}{each.arg}{kind}{value}"

    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    parts = [shown(each, default) for each, default in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if method:
        del parts[0]
        if parts and parts[0] == "/":
            del parts[0]
    if arguments.vararg is not None:
        parts.append(shown(arguments.vararg, star="*"))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [shown(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg is not None:
        parts.append(shown(arguments.kwarg, star="**"))
    return ", ".join(parts)
