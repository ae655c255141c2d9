"""`docs/api.md` lists the public names of the code: no name is missing, and every change is noticed."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from tests.pages import DOCS
from tools.parsed_modules import load
from tools.public_names import MODULES, PAGE, changes, main, make, names_of
from tools.public_source import Entry, first_sentence, public_entry

from tools import parsed_modules, public_names

SAMPLE = '''"""A module. It is for tests."""
from dataclasses import dataclass, field
from sample_names.base import _Base

__all__ = ["Box", "Callback", "Data", "Kind", "Options", "SampleError", "count"]

_LIMIT: Final = 8 << 10
Callback = Callable[[int], None]
"""Called with each number: one at a time. More."""

@dataclass
class Data:
    """Fields of a box.

    Attributes
    ----------
    name, size
        Name, and size. Both may change.
    old
        Gone.
    """

    name: str
    size: int = field(default=_LIMIT, repr=False)
    tags: list[str] = field(default_factory=list)
    """Free texts."""

class Options(TypedDict, total=False):
    """The fields of `Data` as keywords."""

    name: str

class Box(_Base, Sized):
    """A box."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Name of the box."""
        self.opened = False
        """Whether it is open."""
        self._hidden = 1

    async def __aenter__(self) -> Self: ...

    @property
    def size(self) -> int:
        """Bytes of the box."""

    def call(
        self,
        first: bytes = b"",
        *,
        limit: int = _LIMIT,
        **options: Unpack[Options],
    ) -> None: ...

    async def each(self) -> AsyncIterator[int]:
        """Yield the numbers."""
        yield 1

    @classmethod
    def make(cls, /, *names: str) -> Self:
        """Make a box."""

class Kind(Enum):
    """Kind of a box."""

    SMALL = "small"
    OTHER = ""

class SampleError(ValueError):
    """A box is wrong."""

    def __init__(self, message: str = "") -> None: ...

def count(where: str = "a  b", limit: int = _LIMIT + 1) -> int:
    """Count the boxes
    in `a.b`. Raises nothing."""
'''
BASE = '''class _Base:
    def call(self, first: bytes) -> None:
        """Call the box."""

    async def close(self) -> None:
        """Close it."""
'''


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """The entries of a package that no other test reads."""
    package = tmp_path / "sample_names"
    package.mkdir()
    (package / "__init__.py").write_text(SAMPLE)
    (package / "base.py").write_text(BASE)
    monkeypatch.setattr(parsed_modules, "SRC", tmp_path)
    load.cache_clear()
    try:
        module = load("sample_names")
        found = {name: module.resolve(name) for name in module.names}
        return {name: public_entry(one, name) for name, one in found.items() if one is not None}
    finally:
        load.cache_clear()


@pytest.fixture(scope="module")
def made() -> tuple[str, list[str]]:
    """The page and the problems, made from the code; it takes a second."""
    return make()


def lines(entry: Entry) -> list[str]:
    return [f"{each.signature}: {each.doc}" for each in entry.members]


def test_the_page_matches_the_code(made: tuple[str, list[str]]) -> None:
    text, problems = made
    assert problems == []
    page = PAGE.read_text(encoding="utf-8")
    assert changes(page, text) == [], "run `make api`"
    assert page == text, "run `make api`"
    assert f"({PAGE.name})" in (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_the_source_has_the_names_that_programs_see(name: str) -> None:
    module, source = importlib.import_module(name), load(name)
    for each in source.names:
        shown, found = getattr(module, each), source.resolve(each)
        if found is None:
            assert inspect.ismodule(shown)
        elif inspect.isclass(shown):
            bases = [base for base in shown.__mro__ if base.__module__.startswith("jetspark.")]
            public = {key for base in bases for key in vars(base) if not key.startswith("_")}
            assert public <= {member.name for member in public_entry(found, each).members}, each
    if name == "jetspark":
        assert [each for each in dir(module) if not each.startswith("_")] == source.names


def test_signatures_have_parameters_types_and_defaults(sample: dict[str, Entry]) -> None:
    assert sample["count"].signature == 'count(where: str = "a  b", limit: int = (8 << 10) + 1) -> int'
    assert sample["Callback"].signature == "Callback = Callable[[int], None]"
    assert lines(sample["Box"]) == [
        "name: str: Name of the box.",
        "opened: bool: Whether it is open.",
        'call(first: bytes = b"", *, limit: int = 8 << 10, **options: Unpack[Options]) -> None: Call the box.',
        "async close() -> None: Close it.",
        "each() -> AsyncIterator[int]: Yield the numbers.",
        "@classmethod make(*names: str) -> Self: Make a box.",
        "size: int: Bytes of the box.",
    ]
    assert sample["Box"].signature == "class Box(Sized)"
    assert sample["Box"].supports == ("async with",)
    assert lines(sample["SampleError"]) == ['__init__(message: str = ""): Constructor.']


def test_fields_have_defaults_and_the_documentation_of_their_class(sample: dict[str, Entry]) -> None:
    assert lines(sample["Data"]) == [
        "name: str: Name, and size.",
        "size: int = 8 << 10: Name, and size.",
        "tags: list[str] = []: Free texts.",
    ]
    assert lines(sample["Options"]) == ["name: str: Name, and size."]


def test_a_name_without_a_docstring_and_a_wrong_docstring_are_problems(sample: dict[str, Entry]) -> None:
    section = public_names.Section("m", "", (sample["Data"], sample["Kind"], Entry("bare", "bare()", "")))
    assert list(public_names._problems(section)) == [
        "the docstring of Data describes old, which does not exist",
        "Kind.OTHER has no docstring",
        "bare has no docstring",
    ]


@pytest.mark.parametrize(
    ("doc", "sentence"),
    [
        ("One. Two.", "One."),
        ("Read `a.b`:\nthree, four. Five", "Read `a.b`: three, four."),
        ("No full stop\n\nNext.", "No full stop"),
        ("", ""),
    ],
)
def test_the_first_sentence_is_found(doc: str, sentence: str) -> None:
    assert first_sentence(doc) == sentence


def test_added_removed_and_changed_names_are_reported() -> None:
    head = "## `m`\n\nText.\n\n- `one()`: One.\n- `async two(a: int)`: Two.\n"
    page = f"{head}\n### `C`\n\n`class C`: C.\n\n- `f() -> C`: F.\n"
    assert names_of(page).keys() == {"m: one", "m: two", "m: C", "m: C.f"}
    made = page.replace("one()", "other()").replace("a: int", "a: str").replace("- `f", "- `@classmethod f")
    assert changes(page, made) == ["new: m: other", "gone: m: one", "changed: m: two", "changed: m: C.f"]
    assert changes(page, page) == []


def test_a_stale_page_fails_the_check_and_is_written_without_it(
    made: tuple[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "api.md"
    text = PAGE.read_text(encoding="utf-8")
    stale = "\n".join(line for line in text.splitlines() if not line.startswith("- `async flush("))
    page.write_text(stale, encoding="utf-8")
    monkeypatch.setattr(public_names, "PAGE", page)
    monkeypatch.setattr(public_names, "make", lambda: made)
    assert main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("new: jetspark.aio: Connection.flush\nstale")
    assert page.read_text(encoding="utf-8") == stale
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert page.read_text(encoding="utf-8") == text
