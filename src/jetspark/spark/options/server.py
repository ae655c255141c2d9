"""The options of the connection: addresses, login, TLS, domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import api_prefix
from jetspark.spark.options import table
from jetspark.spark.options.option import Option, Use
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options, option_errors
from jetspark.wire.addresses import parse_addresses, servers_from_environment
from jetspark.wire.cli_context import load_context
from jetspark.wire.options import ConnectOptions, TLSOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection
    from jetspark.jetstream.api import Request

__all__ = ["ServerOptions", "make_server_options", "server_options"]

T = TypeVar("T")

_LOGINS: Final = (table.USER, table.TOKEN)
_SIGNERS: Final = (table.CREDENTIALS, table.CREDENTIALS_TEXT, table.NKEY_SEED)
_TLS: Final = (
    table.TLS_CA,
    table.TLS_CERT,
    table.TLS_KEY,
    table.TLS_KEY_PASSWORD,
    table.TLS_HOSTNAME,
    table.TLS_VERIFY,
    table.TLS_FIRST,
)

_OF_CONTEXTS: Final[tuple[Option[object], ...]] = (
    table.SERVERS,
    *_LOGINS,
    table.PASSWORD,
    *_SIGNERS,
    *_TLS,
    table.DOMAIN,
    table.API_PREFIX,
    table.INBOX_PREFIX,
)
"""Options for what a context contains, or leaves at its default."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of the connection to JetStream: a part of the options of each read and write.

    Attributes
    ----------
    connect
        Options of the connection.
    api_prefix
        Prefix of the JetStream API, with its final dot.
    request_timeout
        Seconds to wait for an answer of the API.
    consumer_prefix
        Beginning of the names of the consumers that reads create.
    """

    connect: ConnectOptions
    api_prefix: str
    request_timeout: float
    consumer_prefix: str

    def request(self, connection: Connection, request: Request[T]) -> T:
        """Send a request of the API and return its parsed reply. Raises APIError, TimeoutError, ..."""
        return connection.request(request, timeout=self.request_timeout, prefix=self.api_prefix)

    def first_sequence_at(self, connection: Connection, stream: str, ns: int) -> int:
        """Return the first sequence stored at or after a time, one above the last if there is none."""
        from jetspark.bulk import first_sequence_at

        return first_sequence_at(
            connection,
            stream,
            ns,
            timeout=self.request_timeout,
            prefix=self.api_prefix,
            consumer_prefix=self.consumer_prefix,
        )


def server_options(options: Mapping[str, str]) -> ServerOptions:
    """Check the options of the connection. Raises ConfigError."""
    return make_server_options(ParsedOptions(options, Use.BOTH))


def make_server_options(parsed: ParsedOptions) -> ServerOptions:
    """Check the options of the connection among the parsed ones. Raises ConfigError."""
    if table.CONTEXT in parsed:
        return _with_context(parsed)
    _check_login(parsed)
    _check_tls(parsed)
    if table.DOMAIN in parsed and table.API_PREFIX in parsed:
        raise conflicting_options(table.DOMAIN, table.API_PREFIX)
    with option_errors(table.DOMAIN if table.DOMAIN in parsed else table.API_PREFIX):
        api = api_prefix(parsed[table.DOMAIN], parsed[table.API_PREFIX])
    servers = parsed[table.SERVERS] or servers_from_environment()
    with option_errors(table.SERVERS):
        addresses = parse_addresses(servers)
    login = next((login for login in (*_LOGINS, *_SIGNERS) if login in parsed), None)
    if login is not None and any(address.user or address.token for address in addresses):
        if table.SERVERS in parsed:
            raise ConfigError(f"options servers and {login.name} contradict each other: both contain a login; give one")
        servers = tuple(str(address) for address in addresses)  # the option takes precedence over the environment
    connect = ConnectOptions(
        servers=servers,
        user=parsed[table.USER],
        password=parsed[table.PASSWORD],
        token=parsed[table.TOKEN],
        credentials_file=parsed[table.CREDENTIALS],
        credentials=parsed[table.CREDENTIALS_TEXT],
        nkey_seed=parsed[table.NKEY_SEED],
        tls=_tls_options(parsed) if any(option in parsed for option in _TLS) else None,
        inbox_prefix=parsed[table.INBOX_PREFIX],
    )
    return _complete(parsed, connect, api)


def _with_context(parsed: ParsedOptions) -> ServerOptions:
    """Read the context that an option names. The executors get what the file contains, and do not read it."""
    for option in _OF_CONTEXTS:
        if option in parsed:
            raise conflicting_options(table.CONTEXT, option)
    with option_errors(table.CONTEXT):
        context = load_context(parsed[table.CONTEXT])
        parse_addresses(context.options.servers)
        api = api_prefix(context.jetstream_domain, context.jetstream_api_prefix)
    return _complete(parsed, context.options, api)


def _complete(parsed: ParsedOptions, connect: ConnectOptions, api: str) -> ServerOptions:
    connect = replace(
        connect,
        name=parsed[table.CONNECTION_NAME],
        connect_timeout=parsed[table.CONNECT_TIMEOUT],
        max_control_line=parsed[table.MAX_CONTROL_LINE],
    )
    return ServerOptions(connect, api, parsed[table.REQUEST_TIMEOUT], parsed[table.CONSUMER_PREFIX])


def _check_login(parsed: ParsedOptions) -> None:
    for options in (_LOGINS, _SIGNERS):
        given = [option for option in options if option in parsed]
        if len(given) > 1:
            raise conflicting_options(given[0], given[1])
    if table.PASSWORD in parsed and table.USER not in parsed:
        raise ConfigError("option password needs option user; give both")


def _check_tls(parsed: ParsedOptions) -> None:
    for option, needed in ((table.TLS_KEY, table.TLS_CERT), (table.TLS_KEY_PASSWORD, table.TLS_CERT)):
        if option in parsed and needed not in parsed:
            raise ConfigError(f"option {option.name} needs option {needed.name}; give both")
    if not parsed[table.TLS_VERIFY]:
        for option in (table.TLS_CA, table.TLS_HOSTNAME):
            if option in parsed:
                raise conflicting_options(option, table.TLS_VERIFY, " = false")


def _tls_options(parsed: ParsedOptions) -> TLSOptions:
    return TLSOptions(
        ca_file=parsed[table.TLS_CA],
        cert_file=parsed[table.TLS_CERT],
        key_file=parsed[table.TLS_KEY],
        key_password=parsed[table.TLS_KEY_PASSWORD],
        server_hostname=parsed[table.TLS_HOSTNAME],
        verify=parsed[table.TLS_VERIFY],
        handshake_first=parsed[table.TLS_FIRST],
    )
