"""The architecture page names the modules, the layers and the files that exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
from tests.pages import DOCS

ROOT: Final = DOCS.parent
PAGE: Final = (DOCS / "architecture.md").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: Final = PROJECT["tool"]["importlinter"]["contracts"]
EXHAUSTIVE: Final = [contract for contract in CONTRACTS if contract.get("exhaustive")]


def section(title: str) -> str:
    """Return the text of a section of the page."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def named_modules() -> Iterator[str]:
    """Yield the paths of the tree, without `.py`; some have wildcards."""
    folders: list[tuple[int, str]] = []
    for line in section("Files").splitlines():
        entry = re.match(r"( +)([\w*/]+(?:, [\w*/]+)*)(?: |$)", line)
        if entry is None:
            continue
        depth = len(entry[1])
        while folders and folders[-1][0] >= depth:
            folders.pop()
        for name in entry[2].split(", "):
            path = f"{folders[-1][1] if folders else ''}{name}"
            if name.endswith("/"):
                folders.append((depth, path))
            else:
                yield path


def test_the_tree_names_every_module_and_no_other() -> None:
    modules = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "__init__.py"
    }
    named = list(named_modules())
    assert len(named) == len(set(named))
    assert [name for name in named if not any(fnmatch(module, name) for module in modules)] == []
    assert [module for module in modules if not any(fnmatch(module, name) for name in named)] == []


@pytest.mark.parametrize("contract", EXHAUSTIVE, ids=lambda contract: contract["containers"][0])
def test_the_page_has_the_layers_of_import_linter(contract: dict[str, list[str]]) -> None:
    layers = " → ".join(", ".join(f"`{name}`" for name in layer.split(" | ")) for layer in contract["layers"])
    assert f"| `{contract['containers'][0]}` | {layers} |" in section("Layers")


def test_the_packages_stand_in_the_order_of_import_linter() -> None:
    arrows = re.findall(r"^    (\w+).*--> (\w+)$", section("Layers"), re.MULTILINE)
    layers = [layer.strip("()").removeprefix("jetspark.") for layer in CONTRACTS[0]["layers"]]
    assert {name for arrow in arrows for name in arrow} == set(layers) - {"cli"}
    assert all(layers.index(upper) < layers.index(lower) for upper, lower in arrows)


def test_the_files_of_the_answers_exist() -> None:
    answers = section("Where do I look for ...?")
    files = re.findall(r"`([\w/*]+\.py)`", answers)
    assert len(files) >= 40
    for file in files:
        root = ROOT if file.startswith(("tools/", "tests/")) else ROOT / "src" / "jetspark"
        assert list(root.glob(file)), file


def test_the_names_in_the_answers_are_in_their_files() -> None:
    answers = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", section("Where do I look for ...?"))
    assert len(answers) >= 4
    for file, name in answers:
        text = (ROOT / "src" / "jetspark" / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:async )?(?:def|class) {name}\b", text, re.MULTILINE), (file, name)


def test_dotted_names_of_modules_exist() -> None:
    for name in re.findall(r"`((?:wire|jetstream|engine|bulk|aio|sync|spark)(?:\.\w+)+)`", PAGE):
        path = ROOT / "src" / "jetspark" / Path(*name.split("."))
        parent = path.parent.with_suffix(".py")
        known = path.is_dir() or path.with_suffix(".py").exists()
        assert known or (parent.exists() and re.search(rf"\b{path.name}\b", parent.read_text(encoding="utf-8"))), name
