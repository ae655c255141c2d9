"""Makes the keywords of calls that take the fields of a configuration, as typed dictionaries.

`create_stream(**fields: Unpack[StreamConfigFields])` is then checked by a type checker and completed by an editor. The
dictionaries are made from the classes, so that a field is written only once. The functions of `tools.make_formats` are
made with them.

    python -m tools.make_keywords           writes the modules
    python -m tools.make_keywords --check   says which modules are not as they should be, and fails
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.make_sync import tidy

from tools import make_formats

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src/jetspark"
_TYPES: Final = {"DurationField": "timedelta", "TimestampField": "datetime"}
"""Types of fields, and what a caller gives for them."""


@dataclass(frozen=True)
class Target:
    """A module to make.

    Attributes
    ----------
    path, source
        The module, and the one with the classes; both below `src/jetspark`.
    classes
        Class -> name of the typed dictionary.
    widened
        Annotations of fields for which a caller may give more.
    """

    path: str
    source: str
    classes: dict[str, str]
    widened: dict[str, str]


TARGETS: Final = (
    Target(
        "jetstream/config_keywords.py",
        "jetstream/config.py",
        {"StreamConfig": "StreamConfigFields", "ConsumerConfig": "ConsumerConfigFields"},
        {},
    ),
    Target(
        "jetstream/key_value/config_keywords.py",
        "jetstream/key_value/config.py",
        {"KeyValueConfig": "KeyValueConfigFields"},
        {},
    ),
    Target(
        "jetstream/object_store/config_keywords.py",
        "jetstream/object_store/config.py",
        {"ObjectStoreConfig": "ObjectStoreConfigFields"},
        {},
    ),
    Target(
        "wire/connect_keywords.py",
        "wire/options.py",
        {"ConnectOptions": "ConnectFields"},
        {"tuple[str, ...]": "Sequence[str]"},
    ),
)


def make() -> dict[Path, str]:
    """Return the text of every module."""
    made = {PACKAGE / target.path: tidy("\n".join(_lines(target))) for target in TARGETS}
    return made | {PACKAGE / make_formats.PATH: tidy("\n".join(make_formats.lines()))}


def _lines(target: Target) -> Iterator[str]:
    source = target.source.removesuffix(".py").replace("/", ".")
    tree = ast.parse((PACKAGE / target.source).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = _imported(tree)
    enums = _enums(tree) | {
        name
        for name, module in imported.items()
        if name in _enums(ast.parse(_path(module).read_text(encoding="utf-8")))
    }
    body = "\n".join(line for name in target.classes for line in _class(classes[name], target, enums))
    yield f'"""Keywords of the calls that take the fields of {" or ".join(target.classes)}.\n'
    yield f'Made by `tools/make_keywords.py` from `jetspark.{source}`: change that, then `make sync`.\n"""'
    yield "from __future__ import annotations"
    yield "from collections.abc import Sequence"
    yield "from datetime import datetime, timedelta"
    yield "from typing import TypedDict"
    for name, module in imported.items():
        if re.search(rf"\b{name}\b", body):
            yield f"from {module} import {name}"
    for name in _public(tree):
        if name in target.classes:  # their fields have the documentation
            yield f"from jetspark.{source} import {name} as {name}"
        elif re.search(rf"\b{name}\b", body):
            yield f"from jetspark.{source} import {name}"
    yield f"__all__ = {sorted(target.classes.values())!r}"
    yield body


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module imports from others of the package, and those modules."""
    return {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jetspark.")
        for alias in node.names
    }


def _enums(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "JsonEnum" for base in node.bases)
    }


def _path(module: str) -> Path:
    path = PACKAGE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _class(node: ast.ClassDef, target: Target, enums: set[str]) -> Iterator[str]:
    yield f"\n\nclass {target.classes[node.name]}(TypedDict, total=False):"
    yield f'    """The fields of `{node.name}`, as keywords of a call."""\n'
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield f"    {statement.target.id}: {_widened(ast.unparse(statement.annotation), target, enums)}"


def _public(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _widened(annotation: str, target: Target, enums: set[str]) -> str:
    """Return the type of a field as a caller may give it: for a member of an enumeration also its text."""
    for word, given in {**_TYPES, **{name: f"{name} | str" for name in enums}}.items():
        annotation = re.sub(rf"\b{word}\b", given, annotation)
    return target.widened.get(annotation, annotation)


def stale(made: dict[Path, str]) -> list[Path]:
    """Return the modules that are missing or differ."""
    return [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str] | None = None) -> int:
    """Write the modules, or check them."""
    parser = argparse.ArgumentParser(description="Make the typed dictionaries of keywords.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args(arguments).check
    made = make()
    changed = stale(made)
    for path in changed:
        sys.stdout.write(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}\n")
        if not check:
            path.write_text(made[path], encoding="utf-8")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
