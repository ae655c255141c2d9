"""Connection settings outside of the program: context files of the `nats` command, and `NATS_*` variables.

A context is a JSON file `nats/context/<name>.json` in the user's configuration directory (ADR-21). The file
`nats/context.txt` names the selected context. Variables take precedence over the context, as in the command. A setting
that this library does not support is an error: to ignore it would connect in another way than the file says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from jetspark.wire.addresses import DEFAULT_URL, split_urls
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.arguments import check_names
from jetspark.wire.errors import ConfigError
from jetspark.wire.files import read_secret_file
from jetspark.wire.options import ConnectOptions, TLSOptions
from jetspark.wire.untrusted import decode_json

__all__ = ["CLIContext", "load_context", "options_from_environment"]

_UNSUPPORTED: Final = ("socks_proxy", "nsc", "user_jwt", "windows_cert_store")


_NOT_FOR_CONNECTIONS: Final = frozenset(
    {"color_scheme", "jetstream_event_prefix", "windows_cert_match", "windows_cert_match_by", "windows_ca_certs_match"}
)
"""Fields without effect here: for the output of the command, for events, or of use only with an unsupported field."""
_OTHER_WORDS: Final = {"server": "url", "servers": "url", "username": "user", "usr": "user", "credentials": "creds"}


class _ContextFile(msgspec.Struct):
    """The fields of a context file that this library reads."""

    description: str = ""
    url: str = ""
    socks_proxy: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    creds: str = ""
    nkey: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    nsc: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    inbox_prefix: str = ""
    user_jwt: str = ""
    tls_first: bool = False
    windows_cert_store: str = ""


_file_decoder: Final = msgspec.json.Decoder(_ContextFile)
_document_decoder: Final = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class CLIContext:
    """Content of a context file, with the variables applied.

    Attributes
    ----------
    name, description
        Name and description of the context; empty if no context is selected.
    options
        How to connect.
    jetstream_domain, jetstream_api_prefix
        Domain and API prefix of JetStream; None means those of the account. Give at most one of them to `api_prefix`.
    """

    name: str = ""
    description: str = ""
    options: ConnectOptions = field(default_factory=ConnectOptions)
    jetstream_domain: str | None = None
    jetstream_api_prefix: str | None = None


@checks_arguments()
def load_context(name: str | None = None, environ: Mapping[str, str] | None = None) -> CLIContext:
    """Read a context; the `NATS_*` variables override its settings.

    Parameters
    ----------
    name
        Name of the context, or the absolute path of its file. None takes `NATS_CONTEXT`, else the selected context.
        If there is neither, only the variables are used.
    environ
        Variables; None takes those of the process. Used are `NATS_URL`, `NATS_USER` (a token if there is no password),
        `NATS_PASSWORD`, `NATS_CREDS`, `NATS_NKEY` (both are files), `NATS_CERT`, `NATS_KEY`, `NATS_CA`.

    Raises
    ------
    ConfigError
        There is no such context, its file cannot be read, or it asks for something that is not supported.
    """
    environ = os.environ if environ is None else environ
    folder = _config_dir(environ)
    chosen = name or environ.get("NATS_CONTEXT") or _read_selected_name(folder)
    file = _read_context_file(chosen, folder) if chosen else _ContextFile()
    for key in _UNSUPPORTED:
        if getattr(file, key):
            raise ConfigError(f"context {chosen!r}: {key!r} is not supported; remove it from the context")
    _apply_environment(file, environ)
    return CLIContext(
        Path(chosen).stem if chosen else "",
        file.description,
        _options(file),
        file.jetstream_domain or None,
        file.jetstream_api_prefix or None,
    )


@checks_arguments()
def options_from_environment(environ: Mapping[str, str] | None = None) -> ConnectOptions:
    """Return the options that the `nats` command would use: the selected context, overridden by `NATS_*` variables.

    Raises
    ------
    ConfigError
        See `load_context`.
    """
    return load_context(None, environ).options


def _config_dir(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME")
    return Path(base) / "nats" if base else Path(environ.get("HOME") or Path.home()) / ".config" / "nats"


def _read_selected_name(folder: Path) -> str:
    try:
        return read_secret_file(str(folder / "context.txt"), "selected context").strip()
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        raise


def _read_context_file(name: str, folder: Path) -> _ContextFile:
    path = Path(name)
    if not path.is_absolute():
        if path.name != name or name in {".", ".."}:
            raise ConfigError(f"context {name!r} is not valid; give a name, or an absolute path")
        path = folder / "context" / f"{name}.json"
    try:
        text = read_secret_file(str(path), "context")
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            missing = f"there is no context {name!r}: {path} does not exist; run `nats context ls` for the names"
            raise ConfigError(missing) from None
        raise
    try:
        file = decode_json(_file_decoder, text.encode())
        given = decode_json(_document_decoder, text.encode())
    except msgspec.DecodeError as error:
        raise ConfigError(f"cannot read the context {name!r} in {path}: {error}") from error
    known = file.__struct_fields__
    set_fields = {field for field, value in given.items() if value} - _NOT_FOR_CONNECTIONS
    check_names(f"context {name!r}", "field", sorted(set_fields), known, _OTHER_WORDS)
    return file


def _apply_environment(file: _ContextFile, environ: Mapping[str, str]) -> None:
    """Replace fields by variables; a credential variable removes all credentials of the file."""
    for variable, key in (("NATS_URL", "url"), ("NATS_CERT", "cert"), ("NATS_KEY", "key"), ("NATS_CA", "ca")):
        if environ.get(variable):
            setattr(file, key, environ[variable])
    given = {
        key: environ[variable]
        for variable, key in (("NATS_CREDS", "creds"), ("NATS_NKEY", "nkey"), ("NATS_USER", "user"))
        if environ.get(variable)
    }
    if given:
        file.token = file.user = file.password = file.creds = file.nkey = ""
        for key, value in given.items():
            setattr(file, key, value)
    if environ.get("NATS_PASSWORD"):
        file.password = environ["NATS_PASSWORD"]


def _options(file: _ContextFile) -> ConnectOptions:
    user, token = file.user or None, file.token or None
    if user is not None and not file.password:
        user, token = None, token or user
    tls = None
    if file.ca or file.cert or file.key or file.tls_first:
        tls = TLSOptions(
            ca_file=_expand_path(file.ca),
            cert_file=_expand_path(file.cert),
            key_file=_expand_path(file.key),
            handshake_first=file.tls_first,
        )
    nkey = _expand_path(file.nkey)
    return ConnectOptions(
        servers=split_urls(file.url or DEFAULT_URL),
        user=user,
        password=file.password or None,
        token=token,
        credentials_file=_expand_path(file.creds),
        nkey_seed=_NkeyFile(nkey) if nkey else None,
        tls=tls,
        inbox_prefix=file.inbox_prefix or "_INBOX",
    )


def _expand_path(text: str) -> str | None:
    return str(Path(text).expanduser()) if text else None


@dataclass(frozen=True, slots=True)
class _NkeyFile:
    """A file with the seed of an nkey. Equal ones are equal, so that options with them find their connection again."""

    path: str

    def __call__(self) -> str:
        """Return the seed: the first line that begins with `SU`."""
        for line in read_secret_file(self.path, "nkey file").splitlines():
            if line.strip().startswith("SU"):
                return line.strip()
        raise ConfigError(f"the nkey file {self.path} has no seed of a user (a line that begins with SU)")
