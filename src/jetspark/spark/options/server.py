"""How to reach JetStream, from the options: addresses, login, TLS, domain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import api_prefix
from jetspark.spark.options import table
from jetspark.spark.options.parsed import Given, Naming, contradiction
from jetspark.spark.options.table import Use
from jetspark.spark.options.values import read_texts
from jetspark.wire.options import ConnectOptions, TLSOptions, parse_address

if TYPE_CHECKING:
    from jetspark.bulk import Connection
    from jetspark.jetstream.api import Request

__all__ = ["ServerOptions", "make_server_options", "server_options"]

T = TypeVar("T")

SERVERS_VARIABLE: Final = "NATS_URL"
_DEFAULT_SERVERS: Final = "nats://localhost:4222"
_LOGINS: Final = (table.USER, table.TOKEN, table.CREDENTIALS, table.CREDENTIALS_TEXT, table.NKEY_SEED)
_TLS: Final = (
    table.TLS_CA,
    table.TLS_CERT,
    table.TLS_KEY,
    table.TLS_KEY_PASSWORD,
    table.TLS_HOSTNAME,
    table.TLS_VERIFY,
    table.TLS_FIRST,
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to reach JetStream: part of the options for reading and for writing.

    Attributes
    ----------
    connect
        How to open a connection.
    api
        Prefix of the JetStream API, with its final dot.
    request_timeout
        Seconds to wait for an answer of the API.
    """

    connect: ConnectOptions
    api: str
    request_timeout: float

    def request(self, connection: Connection, request: Request[T]) -> T:
        """Send a request of the API and return what the answer means. Raises APIError, TimeoutError, ..."""
        return connection.request(request, timeout=self.request_timeout, prefix=self.api)

    def first_sequence_at(self, connection: Connection, stream: str, ns: int) -> int:
        """Return the first sequence stored at or after a time, one above the last if there is none. Raises as above."""
        from jetspark.bulk import first_sequence_at

        return first_sequence_at(connection, stream, ns, timeout=self.request_timeout, prefix=self.api)


def server_options(options: Mapping[str, str]) -> ServerOptions:
    """Check the options that say how to reach JetStream. Raises ConfigError."""
    return make_server_options(Given(options, Use.BOTH))


def make_server_options(given: Given) -> ServerOptions:
    """Check them. Raises ConfigError."""
    _check_login(given)
    _check_tls(given)
    if table.DOMAIN in given and table.API_PREFIX in given:
        raise contradiction(table.DOMAIN, table.API_PREFIX)
    with Naming(table.DOMAIN if table.DOMAIN in given else table.API_PREFIX):
        api = api_prefix(given[table.DOMAIN], given[table.API_PREFIX])
    servers = given[table.SERVERS]
    option = "option servers" if servers else f"environment variable {SERVERS_VARIABLE}"
    servers = servers or read_texts(os.environ.get(SERVERS_VARIABLE) or _DEFAULT_SERVERS)
    try:
        addresses = [parse_address(url) for url in servers]
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None
    login = next((login for login in _LOGINS if login in given), None)
    if login is not None and any(address.user or address.token for address in addresses):
        if table.SERVERS in given:
            raise ConfigError(f"options servers and {login.name} contradict each other: both hold a login")
        servers = tuple(str(address) for address in addresses)  # the option goes before the environment
    connect = ConnectOptions(
        servers=servers,
        user=given[table.USER],
        password=given[table.PASSWORD],
        token=given[table.TOKEN],
        credentials_file=given[table.CREDENTIALS],
        credentials=given[table.CREDENTIALS_TEXT],
        nkey_seed=given[table.NKEY_SEED],
        tls=_tls_options(given) if any(option in given for option in _TLS) else None,
        name=given[table.CONNECTION_NAME],
        inbox_prefix=given[table.INBOX_PREFIX],
        connect_timeout=given[table.CONNECT_TIMEOUT],
    )
    return ServerOptions(connect, api, given[table.REQUEST_TIMEOUT])


def _check_login(given: Given) -> None:
    logins = [option for option in _LOGINS if option in given]
    if len(logins) > 1:
        raise contradiction(logins[0], logins[1])
    if table.PASSWORD in given and table.USER not in given:
        raise ConfigError("option password needs option user beside it")


def _check_tls(given: Given) -> None:
    for option, needed in ((table.TLS_KEY, table.TLS_CERT), (table.TLS_KEY_PASSWORD, table.TLS_CERT)):
        if option in given and needed not in given:
            raise ConfigError(f"option {option.name} needs option {needed.name} beside it")
    if not given[table.TLS_VERIFY]:
        for option in (table.TLS_CA, table.TLS_HOSTNAME):
            if option in given:
                raise contradiction(option, table.TLS_VERIFY, " = false")


def _tls_options(given: Given) -> TLSOptions:
    return TLSOptions(
        ca_file=given[table.TLS_CA],
        cert_file=given[table.TLS_CERT],
        key_file=given[table.TLS_KEY],
        key_password=given[table.TLS_KEY_PASSWORD],
        server_hostname=given[table.TLS_HOSTNAME],
        verify=given[table.TLS_VERIFY],
        handshake_first=given[table.TLS_FIRST],
    )
