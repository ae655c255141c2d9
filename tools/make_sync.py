"""Makes the blocking front from the asyncio one: `jetspark.sync.jetstream`, and the handles of `jetspark.sync`.

Every public class of the asyncio package becomes a blocking one of the same name, with the same calls, parameters and
texts, which holds the asyncio object and carries the calls over to its event loop. The translation goes by the types in
the signatures: an object of a class that is translated is wrapped, an async iterator becomes an iterator, a callback
runs on a thread of its own. Code that has no translation is an error of this tool.

    python -m tools.make_sync           writes the package
    python -m tools.make_sync --check   says which files are not as they should be, and fails
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.sync_facade import convert
from tools.sync_source import ByHand, Module, Package, translate

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src/jetspark/aio/jetstream"
TARGET: Final = ROOT / "src/jetspark/sync/jetstream"

HANDWRITTEN: Final = frozenset({"arrow", "async_publisher", "bucket_watch", "object_reader", "pager"})
"""Modules whose blocking form is written by hand, under the same name in `jetspark.sync._handwritten`."""

INTERNAL: Final = frozenset({"_drivers", "core", "requests"})
"""Modules and packages without classes of the front; what the others take from them is the same on both fronts."""

FACADES: Final = ("connection", "message", "subscription", "jetstream/consume_context")
"""Modules of `jetspark.aio` with handles that only pass their calls to a core; `sync_facade` converts them."""

_CONSUME: Final = "jetspark.sync._handwritten.consume"
_PUBLISH: Final = "jetspark.sync._handwritten.async_publisher"
BY_HAND: Final[dict[str, ByHand]] = {
    "OrderedConsumer": ByHand(f"{_CONSUME}:OrderedConsumeMixin", frozenset({"consume"})),
    "Consumer": ByHand(f"{_CONSUME}:ConsumeMixin", frozenset({"ack_all", "consume"})),
    "PushSubscription": ByHand(
        "jetspark.sync._handwritten.push:PushReadMixin",
        frozenset({"drain"}),
        left_out=frozenset({"next_msg", "__iter__", "__next__"}),
    ),
    "BatchPublisher": ByHand(f"{_PUBLISH}:BatchAddMixin", frozenset({"add"})),
    "Publishing": ByHand(f"{_PUBLISH}:PublishAsyncMixin", frozenset({"publish_async"})),
}
"""Classes with some methods written by hand, in a class of `jetspark.sync` that becomes the first base."""


def make() -> tuple[dict[Path, str], list[str]]:
    """Return the text of every file of the target package that is made, and what has no translation."""
    modules = {
        path.stem: Module(path.stem, ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for path in sorted(SOURCE.glob("*.py"))
        if path.stem not in INTERNAL
    }
    package = Package(modules, INTERNAL, HANDWRITTEN, BY_HAND)
    made: dict[Path, str] = {}
    refused: list[str] = []
    for name, module in modules.items():
        try:
            if name not in HANDWRITTEN and f"jetstream/{name}" not in FACADES and (text := translate(module, package)):
                made[TARGET / f"{name}.py"] = tidy(text)
        except ValueError as problem:
            refused.append(f"{name}: {problem}")
    for name in FACADES:
        text = (SOURCE.parent / f"{name}.py").read_text(encoding="utf-8")
        made[TARGET.parent / f"{name}.py"] = tidy(convert(text, name.replace("/", ".")))
    return made, refused


def tidy(text: str) -> str:
    """Return the text without the imports that nobody uses, in the project's format."""
    ruff = [Path(sys.executable).with_name("ruff")]
    first_party = ["--config", 'lint.isort.known-first-party=["jetspark"]']  # also what is not written yet
    where = ["--stdin-filename", str(TARGET / "made.py"), "-"]
    for step in (["check", "--quiet", "--fix-only", "--select", "F401,I,RUF022", *first_party], ["format", "--quiet"]):
        done = subprocess.run([*ruff, *step, *where], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"ruff {step[0]} refuses what was made:\n{done.stderr}\n{text}")
        text = done.stdout
    return text


def stale(made: dict[Path, str]) -> list[Path]:
    """Return the files that are missing, differ, or should not be there."""
    there = set(TARGET.glob("*.py"))
    differ = {path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text}
    return sorted(differ | (there - made.keys()))


def main(arguments: list[str] | None = None) -> int:
    """Write the package, or check it."""
    parser = argparse.ArgumentParser(description="Make jetspark.sync.jetstream from jetspark.aio.jetstream.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    check = parser.parse_args(arguments).check
    made, refused = make()
    for problem in refused:
        sys.stdout.write(f"refused: {problem}\n")
    changed = stale(made)
    for path in changed if not refused else [path for path in changed if path in made]:
        sys.stdout.write(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}\n")
        if not check and path in made:
            path.write_text(made[path], encoding="utf-8")
        elif not check:
            path.unlink()
    return 1 if refused or (check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
