"""Addresses of servers: URLs, and lists of them. Errors show no part of a URL, as any part may belong to a password."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from urllib.parse import unquote, urlsplit

from jetspark.wire.errors import ConfigError

__all__ = [
    "DEFAULT_URL",
    "ServerAddress",
    "parse_address",
    "parse_addresses",
    "servers_from_environment",
    "split_urls",
]

DEFAULT_URL: Final = "nats://localhost:4222"
_DEFAULT_PORT: Final = 4222
_MAX_URL_LENGTH: Final = 4096
_URL_VARIABLE: Final = "NATS_URL"
_SCHEMES: Final = {"nats": False, "tls": True}
_FORM: Final = (
    "the form is nats://[user:password@]host:port; in a user, password or token, write a special character as %XX, "
    "such as %2C for a comma"
)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of one server.

    Attributes
    ----------
    host, port
        Where it listens.
    tls
        The scheme is `tls://`.
    user, password, token
        Credentials from the URL, which take precedence over those of the options. Never shown.
    tls_name
        Name that the certificate must have, if it is not the host: a cluster may report its servers by IP address.
    """

    host: str
    port: int = _DEFAULT_PORT
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_name: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


def parse_address(url: str) -> ServerAddress:
    """Read `[nats|tls://][user[:password]@]host[:port]`. A user without a password is a token.

    Raises
    ------
    ConfigError
        The scheme is another one, there is no host, or the port is not valid. The message has no part of the URL.
    """
    if len(url) > _MAX_URL_LENGTH:
        raise ConfigError(f"it has {len(url)} characters, more than {_MAX_URL_LENGTH}; {_FORM}")
    text = url.strip()
    parts, port = None, -1
    with suppress(ValueError):  # suppressed, not replaced: it has parts of the URL
        parts = urlsplit(text if "://" in text else f"nats://{text}")
    if parts is None:
        raise ConfigError(f"it is not a URL; put an IPv6 address in brackets; {_FORM}")
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"the scheme must be nats:// or tls://; {_FORM}")
    with suppress(ValueError):
        port = parts.port or _DEFAULT_PORT
    if port < 0:
        raise ConfigError(f"the port must be a number from 0 to 65535; {_FORM}")
    if not parts.hostname or "," in parts.hostname:
        raise ConfigError(f"the host name is missing or has a comma; {_FORM}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(
            f"the URL has a path, a query or a fragment; remove it, and give options as arguments; {_FORM}"
        )
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    token = None
    if user is not None and password is None:
        user, token = None, user
    return ServerAddress(parts.hostname, port, _SCHEMES[parts.scheme], user, password, token)


def parse_addresses(urls: Sequence[str]) -> list[ServerAddress]:
    """Read the URLs of servers.

    Raises
    ------
    ConfigError
        A URL is not valid. The message has its number, and no part of it.
    """
    addresses = []
    for number, url in enumerate(urls, 1):
        try:
            addresses.append(parse_address(url))
        except ConfigError as error:
            which = "the server's URL" if len(urls) == 1 else f"URL {number} of {len(urls)} servers"
            raise ConfigError(f"{which}: {error}") from None
    return addresses


def split_urls(text: str) -> tuple[str, ...]:
    """Split a list of URLs at its commas.

    Raises
    ------
    ConfigError
        A comma may belong to a login: an address with a login has no scheme, but another one has a scheme, or the
        address before it has no login.
    """
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    for before, url in pairwise(urls):
        if "@" in url and "://" not in url and ("://" in text or "@" not in before):
            raise ConfigError(
                "the list of servers has a comma inside a login, or a login without a scheme; write nats:// before "
                f"each address; {_FORM}"
            )
    return urls


def servers_from_environment() -> tuple[str, ...]:
    """Return the URLs of the environment variable `NATS_URL`, else the default.

    Raises
    ------
    ConfigError
        A URL is not valid.
    """
    try:
        urls = split_urls(os.environ.get(_URL_VARIABLE, "")) or (DEFAULT_URL,)
        parse_addresses(urls)
    except ConfigError as error:
        raise ConfigError(f"environment variable {_URL_VARIABLE}: {error}") from None
    return urls
