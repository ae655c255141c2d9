"""The search for words in prose and names: the definition of prose, the allowed uses, and the output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_words import ROOT, WORDS, find_uses, main

BEHIND, ANEW, TOLD, TELLS, PATIENCE, WHO, WHAT = WORDS
NAMES = {f"{form}_": form for word in WORDS for form in (word, word.title())}
"""The samples have names instead of the words, so that this file has none of them."""


def uses(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    """Return the lines and words that are found in a file with a text."""
    path = folder / name
    path.write_text(text.format(**NAMES), encoding="utf-8")
    return [(use.line, use.word) for use in find_uses(path)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One {behind_} the other.\n\nIt is made {anew_}.\n", [(1, BEHIND), (3, ANEW)]),
        ("{Anew_}, it {tells_} nobody; nobody is\n{told_}.\n", [(1, ANEW), (1, TELLS), (2, TOLD)]),
        ("The {patience_} of a client.\n", [(1, PATIENCE)]),
        ("{What_} comes late is kept.\n", [(1, WHAT)]),
        ("It ends. {Who_} reads it\nhas to wait.\n- {What_} is left\n", [(1, WHO), (3, WHAT)]),
        ("It is {what_} came, and nobody knows {who_} sent it.\n", []),
        ("{What_} is it?\n\nDone. {Who_}\nreads it?\n", []),
        ("## {What_} a status does\n", []),
        ("It is left {behind_}. It lags\n{behind_}. It is {behind_} a proxy. They are {told_} apart.\n", []),
        ("It shows how far {behind_} a reader is.\n", []),
        ("The name `{told_}`.\n\n```python\nprint('one {behind_} the other')\n```\n\nIt {tells_}.\n", [(7, TELLS)]),
        ("The test `x` and test_{behind_}_it, {behind_}_proxy.\n", []),
    ],
)
def test_uses_in_markdown_are_found(tmp_path: Path, text: str, found: list[tuple[int, str]]) -> None:
    assert uses(tmp_path, "page.md", text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""{What_} it reads.\n\nIt comes {behind_} the rest.\n"""\n', [(1, WHAT), (3, BEHIND)]),
        ("{told_} = {patience_}({behind_})\n", []),
        ("{told_} = 1  # {told_} once\n", [(1, TOLD)]),
        ("# It is so, and {who_}\n# is {told_}. {What_}\n# comes is kept.\n", [(2, TOLD), (2, WHAT)]),
        ("x = 1  # First\n# {What_} comes\nx = 2\n# {Who_} reads\n", [(2, WHAT), (4, WHO)]),
        ("x = '{told_}', ['{patience_}']\n", []),
        ("raise Error(f'{{x}} is {behind_} the {{{told_}}}')\n", [(1, BEHIND)]),
        ("x = 1\nx = '''a b\n\n  {What_} it is\n'''\n", [(4, WHAT)]),
        ("# The test of `{told_}`\n", []),
        (
            "def test_r4_{what_}_comes_late(): ...\nasync def {who_}_is_{told_}(): ...\n",
            [(1, WHAT), (2, TOLD), (2, WHO)],
        ),
        ("def f(): ...\n\n\nclass A:\n    def _is_{behind_}_it(self): ...\n", [(5, BEHIND)]),
        ("def test_it_is_left_{behind_}(): ...\ndef says_{what_}_came(): ...\ndef cold_{told_}er(): ...\n", []),
    ],
)
def test_uses_in_python_are_found(tmp_path: Path, text: str, found: list[tuple[int, str]]) -> None:
    assert uses(tmp_path, "module.py", text) == found


def test_uses_are_printed_and_decide_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("Good.\n")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == ""
    page.write_text(f"One {BEHIND} the other.\n")
    (tmp_path / "data.json").write_text(f'"one {BEHIND} the other"')
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{page}:1: {BEHIND}: {WORDS[BEHIND]}\n"


def test_uses_are_counted_by_folder_and_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text(f"One {BEHIND} the other {BEHIND}. It {TELLS}.\n")
    assert main(["--count", str(tmp_path)]) == 1
    head, _, row, total = capsys.readouterr().out.splitlines()
    assert head == f"| folder | {' | '.join(WORDS)} | all |"
    assert row == f"| {tmp_path.as_posix()} | 2 | 0 | 0 | 1 | 0 | 0 | 0 | 3 |"
    assert total == "| all | 2 | 0 | 0 | 1 | 0 | 0 | 0 | 3 |"


def test_the_tool_and_its_test_contain_none_of_the_words() -> None:
    assert [
        use for name in ("tools/check_words.py", "tests/tools/test_check_words.py") for use in find_uses(ROOT / name)
    ] == []
