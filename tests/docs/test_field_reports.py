"""`docs/field-reports.md` explains each number of a field report that the project uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = "docs/field-reports.md"
PARTS: Final = ("src", "tests", "tools", "docs", "bench", "demo", "examples", "README.md", "CHANGELOG.md")
NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])[Rr]([1-9]\d?)(?![A-Za-z0-9])")
"""`R14`, `(R14,`, `test_r14_name`; not `R141`, `r0` or `var14`."""
SECTION: Final = re.compile(r"^### R(\d+)\. (.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
TEST_FILE: Final = re.compile(r"`(tests/[^`]+)`")
UNKNOWN: Final = 77
"""No report has it. This file must not contain it with its letter."""
LABELS: Final = ("**Reported:**", "**In jetspark:**")


def numbers(text: str) -> set[int]:
    """Return the numbers of field reports in a text."""
    return {int(number) for number in NUMBER.findall(text)}


def sections(page: str) -> dict[int, str]:
    """Return the entries of the page by their number."""
    return {int(number): text for number, text in SECTION.findall(page)}


def unexplained(page: str, texts: Mapping[str, str]) -> list[str]:
    """Return a line for each number of a text that has no entry on the page."""
    known = sections(page)
    return [f"{name}: R{number}" for name, text in texts.items() for number in sorted(numbers(text) - known.keys())]


def wrong_files(page: str, texts: Mapping[str, str]) -> list[str]:
    """Return a line for each test file of an entry that does not exist, or does not use the number of the entry."""
    return [
        f"R{number}: {name}"
        for number, text in sections(page).items()
        for name in TEST_FILE.findall(text)
        if number not in numbers(texts.get(name, ""))
    ]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The texts of the project by their path."""
    files = [file for part in PARTS for file in (ROOT / part, *(ROOT / part).rglob("*"))]
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for file in files
        if file.is_file() and file.suffix in {".py", ".md", ".txt"}
    }


def test_each_number_in_the_project_has_an_entry(texts: dict[str, str]) -> None:
    assert {PAGE, "README.md", "tests/docs/test_field_reports.py"} <= texts.keys()
    assert unexplained(texts[PAGE], texts) == []


def test_each_test_file_of_an_entry_exists_and_uses_its_number(texts: dict[str, str]) -> None:
    assert wrong_files(texts[PAGE], texts) == []


def test_each_file_outside_the_entries_exists(texts: dict[str, str]) -> None:
    assert [name for name in TEST_FILE.findall(texts[PAGE]) if name not in texts] == []


def test_entries_are_complete_and_in_order(texts: dict[str, str]) -> None:
    headings = [int(number) for number in re.findall(r"^### R(\d+)", texts[PAGE], re.MULTILINE)]
    assert headings == sorted(set(headings))
    assert headings == list(sections(texts[PAGE]))
    for number, text in sections(texts[PAGE]).items():
        assert all(words in text for words in LABELS), number


INVENTED: Final = "# Page\n\n### R3. A title\n\n**Tests:** `tests/a.py`.\n\n## Next\n\n`tests/b.py`\n"


@pytest.mark.parametrize("use", ["R{0}", "a (R{0}).", "def test_r{0}_name(): ...", "test_r3_r{0}_name"])
def test_a_number_without_an_entry_is_found(use: str) -> None:
    assert unexplained(INVENTED, {"x.py": use.format(3)}) == []
    assert unexplained(INVENTED, {"x.py": use.format(UNKNOWN)}) == [f"x.py: R{UNKNOWN}"]


@pytest.mark.parametrize("text", ["R0", "R177", "var17", "PR17", "R17x", "17"])
def test_other_words_are_not_numbers(text: str) -> None:
    assert numbers(text) == set()


def test_a_file_that_does_not_exist_is_found() -> None:
    assert wrong_files(INVENTED, {"tests/a.py": "def test_r3_name(): ..."}) == []
    assert wrong_files(INVENTED, {}) == ["R3: tests/a.py"]
    assert wrong_files(INVENTED, {"tests/a.py": "def test_name(): ..."}) == ["R3: tests/a.py"]
