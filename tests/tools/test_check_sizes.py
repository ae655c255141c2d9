"""The search for files that are too long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_sizes import GENERATED, MOST, ROOT, TOP, main, too_long

MADE = '"""A module.\n\nMade by `tools/make_sync.py` from `a.b`: change that, then `make sync`.\n"""\n'


def test_a_file_with_a_line_too_many_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "fits.py").write_text("x\n" * MOST)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    (folder / "long.py").write_text("x\n" * (MOST + 1))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{folder}/long.py: {MOST + 1} lines, 1 too many: split the file by subject\n"


@pytest.mark.parametrize(("before", "long"), [("", False), ("x = 1\n" * 100, True)])
def test_only_a_text_at_the_top_marks_a_file_as_generated(tmp_path: Path, before: str, long: bool) -> None:
    file = tmp_path / "made.py"
    file.write_text(before + MADE + "x\n" * MOST)
    assert bool(list(too_long([file]))) is long


@pytest.mark.parametrize("name", ["jetstream/config_keywords.py", "sync/connection.py", "sync/jetstream/stream.py"])
def test_the_tools_mark_the_files_that_they_generate(name: str) -> None:
    assert GENERATED in (ROOT / "src/jetspark" / name).read_text(encoding="utf-8")[:TOP]
