"""The mutation run: its changes, its report, and that it restores all files."""

import tempfile
from pathlib import Path

import pytest
from tools.mutants.__main__ import Room, run, sample
from tools.mutants.changes import changes_of

SOURCE = """
def small(number: int) -> bool:
    return number < 3

def large(number: int) -> bool:
    return number > 3

def down(number: int) -> None:
    while number:
        number -= 1

def never_called(number: int) -> bool:
    return number == 3
"""
TESTS = """
from tiny import numbers

def test_small():
    assert numbers.small(2) and not numbers.small(3)

def test_large():
    assert numbers.large(5) and not numbers.large(1)

def test_down():
    numbers.down(2)
"""
EDGES = {"number < 3": "number <= 3", "number > 3": "number >= 3", "number == 3": "number != 3"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one module, whose tests do not check the edge of `large`."""
    project = tmp_path / "project"
    for path, text in {
        "src/tiny/__init__.py": "",
        "src/tiny/numbers.py": SOURCE,
        "tests/test_numbers.py": TESTS,
        "pytest.ini": "[pytest]\n",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    return project


def only(monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """Take all changes to these texts, and no other."""

    def planted(folder: Path, room: str, count: int, seed: int) -> list[tuple[Path, object]]:
        path = folder / "numbers.py"
        source = path.read_text()
        return [(path, each) for each in changes_of(source) if any(text in each.shown(source) for text in texts)]

    monkeypatch.setattr("tools.mutants.__main__.sample", planted)


def files(folder: Path) -> dict[str, str]:
    """Return everything below a folder except compiled Python files of the tests."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not (path.suffix == ".pyc" and path.is_relative_to(folder / "tests"))
    }


def test_survivors_are_reported_and_all_files_are_restored(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    only(monkeypatch, *EDGES.values())
    before = files(project)
    outcome = run(project, {"tiny": Room("tiny", 9, ("tests",), 0)}, seed=1)["tiny"]
    survivors = [
        "src/tiny/numbers.py:6\n-    return number > 3\n+    return number >= 3",
        "src/tiny/numbers.py:13\n-    return number == 3\n+    return number != 3",
    ]
    assert (outcome.tried, outcome.survivors) == (3, survivors)
    assert outcome.share == pytest.approx(100 / 3)
    assert all(each in capsys.readouterr().out for each in survivors[:1])
    assert files(project) == before
    assert not list(temporary.iterdir())


def test_a_mutant_that_hangs_is_noticed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "number += 1")
    outcome = run(project, {"tiny": Room("tiny", 9, ("tests",), 0)}, seed=1, patience=1.0)["tiny"]
    assert (outcome.tried, outcome.survivors) == (1, [])


def test_tests_that_fail_without_a_change_end_the_run(project: Path) -> None:
    (project / "tests/test_numbers.py").write_text("def test_it(): assert False\n")
    with pytest.raises(SystemExit, match="without any change"):
        run(project, {"tiny": Room("tiny", 9, ("tests",), 0)}, seed=1)


def test_a_seed_always_gives_the_same_sample(project: Path) -> None:
    folder = project / "src/tiny"
    samples = [sample(folder, "tiny", 3, seed) for seed in (1, 1, *range(2, 9))]
    assert samples[0] == samples[1]
    assert len({repr(each) for each in samples}) > 2
    assert all(len({change.line for _, change in each}) == 3 for each in samples)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not in b in c", ["x = a in b in c", "x = a not in b not in c"]),
        ("x = a and b or c", ["x = a or b or c", "x = a and b and c"]),
        ("x = f(not (a))", ["x = f( (a))"]),
        ("x = -a - b", ["x = a - b", "x = -a + b"]),
        ("x = 1", ["x = 2"]),
        ("x = True", ["x = False"]),
        ("x = 'ä', b'b'", ["x = 'Xä', b'b'", "x = 'ä', b'Xb'"]),
        ("x.y = z", ["pass"]),
        ("x += y", ["pass", "x -= y"]),
        ("await_(x)", ["pass"]),
        ("raise ValueError(1)", ["pass"]),
        ("if x: y", ["if not (x): y"]),
        ("def f(x: int = 1): return x", ["def f(x: int = 2): return x", "def f(x: int = 1): return None"]),
        ("for x in y: continue", ["for x in y: break"]),
    ],
)
def test_a_change_is_of_one_operator_constant_or_statement(before: str, after: list[str]) -> None:
    assert [change.apply(before) for change in changes_of(before)] == after


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "def f(x: Literal['a'] | None = None) -> tuple[Literal['b']]: ...",
        "x: Literal['a']",
        "__all__ = ['a']",
        "if TYPE_CHECKING:\n    x = 1",
        "assert x > 1",
        "x = ValueError('a')",
        "x = f'{a + b}'",
        "x = 'a text of words'",
        "@dataclass(frozen=True, slots=True)\nclass A: ...",
        "x = cast('int', y)",
        "class A(enum.Enum):\n    B = 'b'",
    ],
)
def test_changes_that_no_test_can_notice_are_left_out(source: str) -> None:
    assert changes_of(source) == []
