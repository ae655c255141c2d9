"""Files named by options are read only if they are regular and small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jetspark.errors import ConfigError, TLSError
from jetspark.wire.cli_context import load_context
from jetspark.wire.options import ConnectOptions, TLSOptions, resolve_secret


@pytest.fixture(params=["named pipe", "endless device", "folder", "large file"])
def bad_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "file"
    if request.param == "named pipe":
        os.mkfifo(path)
    elif request.param == "endless device":
        path.symlink_to("/dev/zero")
    elif request.param == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)  # without data
    return path


def test_credentials_are_read_from_a_regular_file_of_limited_size_only(bad_file: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the credentials file {bad_file}"):
        ConnectOptions(credentials_file=str(bad_file)).credentials_text()


@pytest.mark.parametrize("field", ["ca_file", "cert_file", "key_file"])
def test_certificates_are_read_from_a_regular_file_of_limited_size_only(
    bad_file: Path, tmp_path: Path, field: str
) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.touch()
    files = {"cert_file": str(certificate)} if field == "key_file" else {}
    files[field] = str(bad_file)
    with pytest.raises(TLSError, match=f"cannot read .*{bad_file}"):
        TLSOptions(**files).context()  # type: ignore[arg-type]  # the names are of files


def test_contexts_are_read_from_a_regular_file_of_limited_size_only(bad_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the context"):
        load_context(str(bad_file), {})
    folder = tmp_path / "nats"
    folder.mkdir()
    (folder / "context.txt").symlink_to(bad_file)
    with pytest.raises(ConfigError, match="cannot read the selected context"):
        load_context(None, {"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_seed_is_read_from_a_regular_file_of_limited_size_only(bad_file: Path, tmp_path: Path) -> None:
    options = load_context(None, {"XDG_CONFIG_HOME": str(tmp_path), "NATS_NKEY": str(bad_file)}).options
    with pytest.raises(ConfigError, match=f"cannot read the nkey file {bad_file}"):
        resolve_secret(options.nkey_seed)
