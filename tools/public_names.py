"""Writes docs/api.md: every public name of the library, one line each.

python -m tools.public_names          writes the page
python -m tools.public_names --check  fails when the page is not up to date

A public name without a docstring is an error. So is a name that only the docstring of a class has.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from tools.parsed_modules import Definition, Module, load
from tools.public_source import Entry, Member, first_sentence, named_types, public_entry

from jetspark.jetstream.errors import api_error
from jetspark.spark.options.table import OPTIONS

__all__ = ["PAGE", "changes", "main", "make", "names_of"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "api.md"

MODULES: Final = (
    "jetspark",
    "jetspark.aio",
    "jetspark.aio.jetstream",
    "jetspark.sync",
    "jetspark.sync.jetstream",
    "jetspark.jetstream",
    "jetspark.jetstream.api",
    "jetspark.errors",
    "jetspark.events",
    "jetspark.bulk",
    "jetspark.spark",
    "jetspark.server",
)
"""Modules whose names are public, in the order of the page."""

BLOCKING: Final = {"jetspark.sync": "jetspark.aio", "jetspark.sync.jetstream": "jetspark.aio.jetstream"}
"""Modules with the names of another one, of which only the differences are listed."""

SHARED_BASES: Final = tuple(("jetspark.jetstream.codec", name) for name in ("JsonEnum", "KeywordStruct", "JsonStruct"))
"""Internal bases of many public classes. Their names are listed once."""

NOT_DESCRIBED: Final = ("jetspark.spark.", "jetspark.wire.frames.", "jetspark.wire.vector.")
"""Types that signatures name, and that only Spark or the library itself uses."""

TYPES: Final = "Types in signatures"
OPTION_TABLE: Final = 'Options of `format("jetstream")`'

HEAD: Final = """\
# Public names

This page lists every public name, one line each: signature, and the first sentence of its documentation. Names that
this page does not list are internal and may change. `make api` writes the page from the code.

- `async name(...)` is awaited. `name(...)` returns at once, on the blocking front after its work is done.
- An object also has the names of the bases in `class Name(Base)`. This page does not repeat them.
- Dataclasses and structs take their fields as keyword arguments. The lines of the fields have the defaults.
- `**fields: Unpack[Name]`: the names of the keyword arguments are the fields of `Name`.
"""

_CODES: Final = range(10000, 11000)
"""Numbers that an error of the JetStream API may have."""
_AWAIT: Final = (
    (re.compile(r"\basync "), ""),
    (re.compile(r"\bAsync(?=Iterator|Iterable|Generator)"), ""),
    (re.compile(r"\bAwaitable\[None\] \| None"), "None"),
    (re.compile(r"\banext\b"), "next"),
    (re.compile(r"(?<=\d)_(?=\d)"), ""),  # the generator of the blocking front writes numbers without it
)
"""Differences between the fronts that follow from `await`."""
_HEADING: Final = re.compile(r"(##|###) `?([^`]*)`?")
_LINE: Final = re.compile(r"- `(?:@\w+ |async |class )*([\w.]+)")


@dataclass(frozen=True)
class Section:
    """The names of a module, or another list of names.

    Attributes
    ----------
    title, doc
        Heading, and the text below it.
    references
        Lines of names that another section describes.
    entries
        The names that the section describes.
    notes
        Text after the first sentence, by name.
    """

    title: str
    doc: str
    entries: tuple[Entry, ...]
    references: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)


def make() -> tuple[str, list[str]]:
    """Return the text of the page, and a line for each public name that has no docstring, or a wrong one."""
    modules = {name: load(name) for name in MODULES}
    homes = _homes(modules)
    types = _types(homes)
    listed = {*homes, *types}
    notes = {name: f"Error codes: {codes}." for name, codes in _error_codes().items()}
    sections: list[Section] = []
    for name, module in modules.items():
        if name in BLOCKING:
            sections.append(_blocking(module, modules[BLOCKING[name]]))
            continue
        found = {each: module.resolve(each) for each in module.names}
        here = {each: one for each, one in found.items() if one is not None and homes[one] == name}
        entries = tuple(public_entry(one, each, listed) for each, one in here.items())
        elsewhere = [(each, one) for each, one in found.items() if each not in here]
        references = tuple(
            f"- `{each}`: `{name}.{each}`, a module" if one is None else f"- `{each}`: as `{homes[one]}.{each}`"
            for each, one in elsewhere
        )
        sections.append(Section(f"`{name}`", first_sentence(module.doc), entries, references, notes))
        if name == "jetspark.spark":
            sections.append(_options())
    others = tuple(public_entry(each, each.qualified, listed) for each in types)
    sections.append(Section(TYPES, "The names above use these types. The modules that define them may change.", others))
    problems = [f"{section.title}: {problem}" for section in sections for problem in _problems(section)]
    return HEAD + "".join(_text(section) for section in sections), problems


def _homes(modules: Mapping[str, Module]) -> dict[Definition, str]:
    """Return the module that describes each definition: the first one that exports it, `jetspark` last."""
    homes: dict[Definition, str] = {}
    for module in sorted(modules.values(), key=lambda each: each.name == "jetspark"):
        for name in module.names:
            found = module.resolve(name)
            if found is not None:
                homes.setdefault(found, module.name)
    return homes


def _types(homes: Mapping[Definition, str]) -> list[Definition]:
    """Return the classes and aliases that signatures name and no public module exports, and shared bases."""
    shared = {load(module).resolve(name) for module, name in SHARED_BASES}
    known = {*homes, *(each for each in shared if each is not None)}
    todo = list(known)
    while todo:
        found = named_types(todo.pop(), known) - known
        found = {each for each in found if not each.qualified.startswith(NOT_DESCRIBED)}
        known |= found
        todo += found
    return sorted(known - homes.keys(), key=lambda each: each.qualified)


def _error_codes() -> dict[str, str]:
    """Return the numbers of each error class of the JetStream API as text: `10014, 10016-10020`."""
    numbers: dict[str, list[int]] = {}
    for number in _CODES:
        numbers.setdefault(type(api_error(0, number)).__name__, []).append(number)
    del numbers["APIError"]  # numbers without a class of their own
    return {name: ", ".join(_runs(each)) for name, each in numbers.items()}


def _runs(numbers: list[int]) -> Iterator[str]:
    gaps = [(before, after) for before, after in pairwise(numbers) if after != before + 1]
    starts, ends = [numbers[0], *(after for _, after in gaps)], [*(before for before, _ in gaps), numbers[-1]]
    for start, end in zip(starts, ends, strict=True):
        yield str(start) if start == end else f"{start}-{end}"


def _blocking(module: Module, source: Module) -> Section:
    """Return what a module of the blocking front has otherwise than its asyncio counterpart."""
    entries, notes = [], {}
    for name in sorted({*module.names, *source.names}):
        one = module.resolve(name) if name in module.names else None
        other = source.resolve(name) if name in source.names else None
        if one is other:
            continue
        if one is None:
            entries.append(Entry(name, name, "Not on this front."))
            continue
        entry = public_entry(one, name)
        counterpart = public_entry(other, name) if other is not None else Entry(name, "", "")
        differing = _differing(entry, counterpart)
        absent = sorted({each.name for each in counterpart.members} - {each.name for each in entry.members})
        if absent:
            notes[name] = f"Not here: {', '.join(f'`{each}`' for each in absent)}."
        if differing is not None or absent:
            entries.append(differing or Entry(name, entry.signature, entry.doc))
    doc = f"{first_sentence(module.doc)} The names are those of `{source.name}`, without `await`. These differ:"
    return Section(f"`{module.name}`", doc, tuple(entries), (), notes)


def _differing(entry: Entry, counterpart: Entry) -> Entry | None:
    """Return the entry with the members that differ from their counterparts; None if nothing differs."""
    there = {_plain(each.signature) for each in counterpart.members}
    members = tuple(each for each in entry.members if _plain(each.signature) not in there)
    if not members and not entry.members:
        return entry if entry.signature.replace("async ", "") != counterpart.signature.replace("async ", "") else None
    if not members:
        return None
    return Entry(entry.name, entry.signature, entry.doc, members)


def _plain(signature: str) -> str:
    for pattern, instead in _AWAIT:
        signature = pattern.sub(instead, signature)
    return signature


def _options() -> Section:
    members = tuple(
        Entry(
            option.name,
            f"{option.name}",
            f"{option.use.value}; {option.kind}; default: {option.default_text}. {first_sentence(option.meaning)}",
        )
        for option in OPTIONS
    )
    return Section(OPTION_TABLE, "[Spark](spark.md) has the table with the complete texts.", members)


def _problems(section: Section) -> Iterator[str]:
    """Yield the names without a docstring, and those that a docstring has and the class has not.

    A member of an enumeration whose value is its own name needs no docstring.
    """
    for entry in section.entries:
        names = [entry.name] if not entry.doc else []
        names += [
            f"{entry.name}.{member.name}"
            for member in entry.members
            if not (member.doc or member.signature == f'{member.name} = "{member.name.lower()}"')
        ]
        yield from (f"{name} has no docstring" for name in names)
        yield from (f"the docstring of {entry.name} describes {name}, which does not exist" for name in entry.unknown)


# -- the page --------------------------------------------------------------------------------------------------------


def _text(section: Section) -> str:
    lines = ["", f"## {section.title}", "", section.doc, ""]
    plain = [entry for entry in section.entries if not (entry.members or entry.supports)]
    lines += [*section.references, *(_line(entry, section.notes.get(entry.name, "")) for entry in plain)]
    if not (section.references or plain):
        del lines[-1]
    for entry in section.entries:
        if entry not in plain:
            note = section.notes.get(entry.name, "")
            supports = f"Supports {', '.join(f'`{each}`' for each in entry.supports)}." if entry.supports else ""
            words = [f"`{entry.signature}`: {entry.doc}", note, supports]
            lines += ["", f"### `{entry.name}`", "", " ".join(word for word in words if word), ""]
            lines += [_line(member) for member in entry.members]
    return "\n".join(lines).rstrip("\n") + "\n"


def _line(of: Entry | Member, note: str = "") -> str:
    words = " ".join(word for word in (of.doc, note) if word)
    return f"- `{of.signature}`: {words}" if words else f"- `{of.signature}`"


def names_of(page: str) -> dict[str, str]:
    """Return the lines of a page by their names, as `jetspark.aio: Connection.publish`."""
    found: dict[str, str] = {}
    section = entry = ""
    for line in page.splitlines():
        if heading := _HEADING.fullmatch(line):
            section, entry = (heading[2], "") if heading[1] == "##" else (section, heading[2])
        elif entry and line.startswith("`"):
            found[f"{section}: {entry}"] = line
        elif section and (name := _LINE.match(line)):
            found[f"{section}: {entry}.{name[1]}" if entry else f"{section}: {name[1]}"] = line
    return found


def changes(page: str, made: str) -> list[str]:
    """Return a line for each name that is new, gone or changed in the text made from the code."""
    old, new = names_of(page), names_of(made)
    lines = [f"new: {name}" for name in new if name not in old]
    lines += [f"gone: {name}" for name in old if name not in new]
    lines += [f"changed: {name}" for name in new if name in old and old[name] != new[name]]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page would change")
    check = parser.parse_args(arguments).check
    made, problems = make()
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    for line in changes(page, made):
        sys.stdout.write(f"{line}\n")
    if made != page:
        sys.stdout.write(f"{'stale, run `make api`' if check else 'written'}: docs/{PAGE.name}\n")
        if not check:
            PAGE.write_text(made, encoding="utf-8")
    return 1 if problems or (check and made != page) else 0


if __name__ == "__main__":
    sys.exit(main())
