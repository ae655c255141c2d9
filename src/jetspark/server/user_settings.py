"""Checks of the user's settings and names, and removal of secrets from texts.

`NatsServer` itself sets listen addresses, name, store, monitoring and logging. The server would also accept the same
setting under another spelling, and it would be random which one it uses. So these settings are refused; the error names
the argument to use.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["check_name", "check_user_settings", "redact"]

_MANAGED_SETTINGS = {
    **dict.fromkeys(("listen", "host", "net"), "host= and port="),
    "port": "port=",
    "server_name": "name=",
    **dict.fromkeys(("store_dir", "storedir", "store"), "store_dir="),
    **dict.fromkeys(("http", "https", "http_port", "https_port", "monitor_port", "http_base_path"), "monitor_url"),
    **dict.fromkeys(("logfile", "log_file", "syslog", "remote_syslog"), "log_path"),
}
_SECRET_KEYS = frozenset(
    {"pass", "password", "token", "key", "ek", "encryption_key", "prev_key", "prev_ek", "prev_encryption_key"}
)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)


def check_name(name: str) -> str:
    """Return the name of a server or cluster if it can also be the name of a folder.

    Raises:
        ValueError: it has another character than letters, digits, `_`, `.` and `-`, begins with one of these three, or
            has more than 128 characters.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r} must have 1 to 128 letters, digits, _, . and -, the first a letter or digit")
    return name


def check_user_settings(config: Mapping[str, object], jetstream: bool) -> dict[str, object]:
    """Return the user's settings; keys at the top level and in `jetstream` are in lower case, as case is ignored.

    Raises:
        ValueError: a setting that `NatsServer` sets itself, or a jetstream section although JetStream is off.
    """
    settings = {key.lower(): value for key, value in config.items()}
    if "jetstream" in settings and not jetstream:
        raise ValueError("config has a jetstream section, but jetstream=False was given")
    section = settings.get("jetstream")
    if isinstance(section, Mapping):
        section = settings["jetstream"] = {str(key).lower(): value for key, value in section.items()}
    elif section is True or section in ("enabled", "enable"):
        del settings["jetstream"]  # it is on already, and the default section with the store must stay
    for key in (*settings, *(section if isinstance(section, Mapping) else ())):
        if key in _MANAGED_SETTINGS:
            raise ValueError(
                f"config must not set {key!r}, which the managed server sets; see {_MANAGED_SETTINGS[key]}"
            )
    return settings


def redact(text: str, config: Mapping[str, object]) -> str:
    """Return `text` with the passwords, tokens and keys of `config` replaced by `***`."""
    for secret in set(_secrets(config)):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, str) and item and str(key).lower() in _SECRET_KEYS:
                yield item
            else:
                yield from _secrets(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _secrets(item)
