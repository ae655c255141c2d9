"""Connect options: addresses, credentials, TLS. Nothing here opens a socket.

No `repr` shows secrets, and an address prints without its user and password.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, cast

from jetspark.wire.addresses import (
    DEFAULT_URL,
    ServerAddress,
    parse_addresses,
    servers_from_environment,
    split_urls,
)
from jetspark.wire.argument_types import check_fields, kind_of, wrong_type
from jetspark.wire.arguments import check_names
from jetspark.wire.callbacks import callback_name
from jetspark.wire.errors import ConfigError, CredentialsCallbackError, Error, TLSError
from jetspark.wire.files import check_file, read_secret_file
from jetspark.wire.line_limits import MAX_CONTROL_LINE, MIN_CONTROL_LINE
from jetspark.wire.subjects import check_publish_subject

__all__ = [
    "ConnectOptions",
    "Secret",
    "ServerAddress",
    "TLSOptions",
    "resolve_secret",
]

_OTHER_WORDS: Final = {
    "allow_reconnect": "reconnect",
    "dont_randomize": "randomize",
    "max_reconnect_attempts": "max_reconnects",
    "nkeys_seed": "nkey_seed",
    "no_echo": "echo",
    "pending_size": "reconnect_buffer_size",
    "reconnect_time_wait": "reconnect_wait",
    "url": "servers",
    "urls": "servers",
    "user_credentials": "credentials_file",
    "username": "user",
    "usr": "user",
}
"""Words of other clients for the fields of `ConnectOptions`."""

Secret = str | Callable[[], str]
"""A credential, or a function that returns a new one at each (re)connect. The function must not block."""


_SOURCE: Final = kind_of(str | Sequence[str])


def resolve_secret(secret: Secret | None) -> str | None:
    """Return the credential; if it is a function, call it.

    Raises
    ------
    CredentialsCallbackError
        The function raised, or it returned something else than text.
    """
    if not callable(secret):
        return secret
    try:
        found: object = secret()
    except (Error, KeyboardInterrupt):
        raise
    except BaseException as error:  # also of sys.exit(), which would end the thread of a blocking connection
        name = callback_name(secret)
        raise CredentialsCallbackError(
            f"the credentials function {name} raised {type(error).__name__}: {error}", callback=name
        ) from error
    if isinstance(found, str):
        return found
    name, kind = callback_name(secret), type(found).__name__
    raise CredentialsCallbackError(f"the credentials function {name} returned {kind}, not text", callback=name)


def _stripped(urls: Iterable[str]) -> tuple[str, ...]:
    return tuple(url.strip() for url in urls if url.strip())


@dataclass(frozen=True, slots=True)
class TLSOptions:
    """TLS options.

    Attributes
    ----------
    ca_file
        PEM file of the authorities to trust; None takes the system's.
    cert_file, key_file, key_password
        Client certificate and its key (PEM).
    server_hostname
        Name that the server's certificate must have; None takes the address.
    verify
        Whether to check certificate and name. Switch it off only in tests.
    handshake_first
        The server expects TLS before it sends INFO.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    server_hostname: str | None = None
    verify: bool = True
    handshake_first: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.cert_file is None and (self.key_file is not None or self.key_password is not None):
            given = "key_file" if self.key_file is not None else "key_password"
            raise ConfigError(f"{given} needs cert_file, the certificate of the key; give both")

    def context(self) -> ssl.SSLContext:
        """Create the SSL context; reads the files.

        Raises
        ------
        TLSError
            A file is missing or not valid; the message names it.
        """
        try:
            if self.ca_file is not None:
                check_file(self.ca_file)
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TLSError(f"cannot read the CA certificates in {self.ca_file}: {error}") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            try:
                for path in filter(None, (self.cert_file, self.key_file)):
                    check_file(path)
                context.load_cert_chain(self.cert_file, self.key_file, self.key_password)
            except (OSError, ssl.SSLError) as error:
                files = self.cert_file if self.key_file is None else f"{self.cert_file} and {self.key_file}"
                raise TLSError(f"cannot read the client certificate in {files}: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Options of a connection.

    Attributes
    ----------
    servers
        URLs, tried in random order unless `randomize` is False. `ConnectOptions()` has `nats://localhost:4222`.
    user, password, token
        Simple credentials. Like every secret here, password and token may be a function that returns a new one. They
        may be given together with an nkey or a `.creds` file, as an auth callout may need both.
    credentials_file, credentials
        A `.creds` file, read again at each connect, or its text: JWT and nkey seed.
    nkey_seed
        Seed of an nkey.
    tls
        None encrypts only if the server requires it or the scheme is `tls://`.
    name
        Shown in the server's monitoring.
    inbox_prefix
        First tokens of every reply subject.
    connect_timeout
        Timeout in seconds for each server, from the first packet until the server accepts the connection.
    echo
        Whether the server also sends this connection's own publishes to its subscriptions.
    randomize
        Whether to try the servers in random order; False keeps the given order.
    discover_servers
        Whether to also use the servers that the cluster reports.
    retry_connect
        Whether the first connect retries like a reconnect; False fails after one try at each server.
    reconnect
        Whether to reconnect after a loss; False closes the connection instead.
    leave_unavailable_server
        Whether to leave a server whose JetStream is silent or unavailable for some seconds, if other servers are known.
        Has no effect with `reconnect=False`, or without JetStream.
    max_reconnects
        Consecutive failures after which a server is not tried any more; None has no limit. If no server is left, the
        connection closes. A session that lasts for five seconds ends the row. One that is lost sooner is a failure,
        too, except for the first one.
    max_auth_failures
        Consecutive refusals of the credentials after which a server is not tried any more; None has no limit.
    reconnect_wait, reconnect_wait_max
        Seconds to wait before the second round through the servers, and the maximum. The wait grows by 50 % with each
        round. The first round has no wait. Each wait is shortened at random, by up to 50 %. After a session that is
        lost within five seconds, except for the first one, the wait goes on growing.
    max_control_line
        Bytes of the longest control line that the servers accept, as in their configuration. The subjects of a message
        or of a subscription are part of its line; longer ones are refused.
    reconnect_buffer_size
        Bytes of publishes that are kept while there is no connection; 0 refuses to publish then.
    ping_interval
        Seconds between the client's PINGs.
    max_outstanding_pings
        Number of unanswered PINGs at which the connection counts as dead.
    pending_msgs_limit, pending_bytes_limit
        Default limits of the messages, and of their bytes, that wait in a subscription.
    drain_timeout
        Timeout of a drain in seconds.
    """

    servers: tuple[str, ...] = (DEFAULT_URL,)
    user: str | None = field(default=None, repr=False)
    password: Secret | None = field(default=None, repr=False)
    token: Secret | None = field(default=None, repr=False)
    credentials_file: str | None = None
    credentials: Secret | None = field(default=None, repr=False)
    nkey_seed: Secret | None = field(default=None, repr=False)
    tls: TLSOptions | None = None
    name: str = "jetspark"
    inbox_prefix: str = "_INBOX"
    connect_timeout: float = 5.0
    echo: bool = True
    randomize: bool = True
    discover_servers: bool = True
    retry_connect: bool = False
    reconnect: bool = True
    leave_unavailable_server: bool = True
    max_reconnects: int | None = None
    max_auth_failures: int | None = None
    reconnect_wait: float = 0.05
    reconnect_wait_max: float = 5.0
    max_control_line: int = MAX_CONTROL_LINE
    reconnect_buffer_size: int = 8 << 20
    ping_interval: float = 120.0
    max_outstanding_pings: int = 2
    pending_msgs_limit: int = 512 << 10
    pending_bytes_limit: int = 64 << 20
    drain_timeout: float = 30.0

    def __repr__(self) -> str:
        servers = "wrong servers"  # a traceback may show options that are being checked
        with contextlib.suppress(ConfigError, TypeError, AttributeError):
            servers = ", ".join(str(address) for address in self.addresses())
        return f"ConnectOptions({servers}, name={self.name!r}, tls={self.tls!r})"

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.servers:
            raise ConfigError("servers is empty; give at least one server URL")
        self._check_numbers()
        for names in (("user", "token"), ("credentials_file", "credentials", "nkey_seed")):
            given = [name for name in names if getattr(self, name) is not None]
            if len(given) > 1:
                raise ConfigError(f"give one kind of credentials, not {' and '.join(given)}")
        if self.password is not None and self.user is None:
            raise ConfigError("password needs user; give both")
        self.addresses()

    def _check_numbers(self) -> None:
        for name in (
            "connect_timeout",
            "ping_interval",
            "max_outstanding_pings",
            "pending_msgs_limit",
            "pending_bytes_limit",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("reconnect_wait", "reconnect_wait_max", "reconnect_buffer_size", "drain_timeout"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative; it is {getattr(self, name)}")
        if self.max_control_line < MIN_CONTROL_LINE:
            raise ConfigError(f"max_control_line must be at least {MIN_CONTROL_LINE}, not {self.max_control_line}")
        check_publish_subject(self.inbox_prefix)

    @classmethod
    def of(cls, source: ConnectOptions | str | Sequence[str] | None = None, **changes: object) -> Self:
        """Create options from options, a URL, a comma-separated list or a sequence of URLs, and apply `changes`.

        None takes the URLs of the environment variable `NATS_URL`, else `nats://localhost:4222`.
        """
        try:
            return cls._of(source, changes)
        except Error as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error
        finally:
            del source, changes  # a traceback with local variables must not show secrets

    @classmethod
    def _of(cls, source: object, changes: dict[str, object]) -> Self:
        if isinstance(source, ConnectOptions):
            base = source
        elif source is None:
            base = cls() if "servers" in changes else cls(servers=servers_from_environment())
        elif not _SOURCE.fits(source):
            raise wrong_type("connect", "where", "ConnectOptions, a URL, a list of URLs or None", source)
        else:
            base = cls(
                servers=split_urls(source) if isinstance(source, str) else _stripped(cast("Sequence[str]", source))
            )
        check_names("ConnectOptions", "field", changes, cls.__dataclass_fields__, _OTHER_WORDS)
        return replace(base, **changes)  # type: ignore[arg-type, return-value]  # the names are checked above

    def addresses(self) -> list[ServerAddress]:
        """Return the servers in the given order."""
        return parse_addresses(self.servers)

    def credentials_text(self) -> str | None:
        """Return the text of the `.creds` file, read again at each call so that new credentials are found.

        Raises
        ------
        ConfigError
            The file cannot be read.
        """
        if self.credentials_file is None:
            return resolve_secret(self.credentials)
        return read_secret_file(self.credentials_file, "credentials file")
