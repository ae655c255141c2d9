"""The tests that docs/security.md names as its proof exist."""

from __future__ import annotations

import re

from tests.pages import DOCS


def test_each_named_file_of_tests_exists() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert len(named) > 20
    assert [path for path in named if not (DOCS.parent / path).exists()] == []
