"""Options of the connection: servers, login, TLS, where the JetStream API is."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.names import CONSUMER_PREFIX as _DEFAULT_CONSUMER_PREFIX
from jetspark.jetstream.names import check_consumer_prefix, check_publish_subject
from jetspark.spark.options.option import NONE, Option
from jetspark.spark.options.values import (
    parse_boolean,
    parse_context,
    parse_duration,
    parse_line_size,
    parse_servers,
    parse_text,
)

__all__ = [
    "API_PREFIX",
    "CONNECTION_NAME",
    "CONNECT_TIMEOUT",
    "CONSUMER_PREFIX",
    "CONTEXT",
    "CREDENTIALS",
    "CREDENTIALS_TEXT",
    "DOMAIN",
    "INBOX_PREFIX",
    "MAX_CONTROL_LINE",
    "NKEY_SEED",
    "PASSWORD",
    "REQUEST_TIMEOUT",
    "SERVERS",
    "TLS_CA",
    "TLS_CERT",
    "TLS_FIRST",
    "TLS_HOSTNAME",
    "TLS_KEY",
    "TLS_KEY_PASSWORD",
    "TLS_VERIFY",
    "TOKEN",
    "USER",
]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

SERVERS: Final = Option[tuple[str, ...] | None](
    "servers", "list of URLs", parse_servers, None, "`NATS_URL`, else `nats://localhost:4222`",
    "Servers to connect to, `nats://` or `tls://`, tried in random order.", kafka_option="kafka.bootstrap.servers",
    secret=True,
)
CONTEXT: Final = Option[str | None](
    "context", "name", parse_context, None, NONE,
    "Context of the `nats` command: its name, or the absolute path of its file. It gives the servers, the login, TLS, "
    "the domain and the prefixes, instead of the options for them. The driver reads the file.",
)
USER: Final = Option[str | None]("user", "text", parse_text, None, NONE, "User name.", secret=True)
PASSWORD: Final = Option[str | None](
    "password", "text", str, None, NONE, "The user's password.", kafka_option="kafka.sasl.jaas.config", secret=True
)
TOKEN: Final = Option[str | None]("token", "text", parse_text, None, NONE, "Token.", secret=True)
CREDENTIALS: Final = Option[str | None](
    "credentials", "path", parse_text, None, NONE,
    "Path of a `.creds` file. The file must exist on the driver and on every executor.",
)
CREDENTIALS_TEXT: Final = Option[str | None](
    "credentialsText", "text", parse_text, None, NONE, "The content of a `.creds` file.", secret=True
)
NKEY_SEED: Final = Option[str | None]("nkeySeed", "text", parse_text, None, NONE, "Seed of an nkey.", secret=True)
TLS_CA: Final = Option[str | None](
    "tlsCa", "path", parse_text, None, "the system's", "PEM file with the CA certificates to trust.",
    kafka_option="kafka.ssl.truststore.location",
)
TLS_CERT: Final = Option[str | None](
    "tlsCert", "path", parse_text, None, NONE, "PEM file with the client's certificate.",
    kafka_option="kafka.ssl.keystore.location",
)
TLS_KEY: Final = Option[str | None](
    "tlsKey",
    "path",
    parse_text,
    None,
    "in `tlsCert`",
    "PEM file with the client's key.",
    kafka_option="kafka.ssl.keystore.key",
)
TLS_KEY_PASSWORD: Final = Option[str | None](
    "tlsKeyPassword", "text", str, None, NONE, "Password of the client's key.", kafka_option="kafka.ssl.key.password",
    secret=True,
)
TLS_HOSTNAME: Final = Option[str | None](
    "tlsHostname", "text", parse_text, None, "the address", "Name that the server's certificate must carry."
)
TLS_VERIFY: Final = Option[bool](
    "tlsVerify", "true or false", parse_boolean, True, "true",
    "Check the server's certificate. Without this check, any host can pretend to be the server.",
    kafka_option="kafka.ssl.endpoint.identification.algorithm",
)
TLS_FIRST: Final = Option[bool](
    "tlsFirst", "true or false", parse_boolean, False, "false", "Start TLS before the server sends its first message."
)
DOMAIN: Final = Option[str | None]("domain", "text", parse_text, None, NONE, "JetStream domain.")
API_PREFIX: Final = Option[str | None](
    "apiPrefix", "subject", parse_text, None, "`$JS.API`", "Prefix of the JetStream API that another account exports."
)
INBOX_PREFIX: Final = Option[str](
    "inboxPrefix", "subject", lambda text: check_publish_subject(parse_text(text)), "_INBOX", "`_INBOX`",
    "Prefix of the reply subjects.",
)
CONSUMER_PREFIX: Final = Option[str](
    "consumerPrefix", "text", lambda text: check_consumer_prefix(parse_text(text)), _DEFAULT_CONSUMER_PREFIX,
    f"`{_DEFAULT_CONSUMER_PREFIX}`",
    "The names of all consumers that a read creates, and that a write creates to look up rows, begin with this text.",
    kafka_option="groupIdPrefix",
)
CONNECTION_NAME: Final = Option[str](
    "connectionName", "text", parse_text, "jetspark-spark", "`jetspark-spark`",
    "Name of the connections, shown by the server's monitoring.", kafka_option="kafka.client.id",
)
CONNECT_TIMEOUT: Final = Option[float](
    "connectTimeout", "duration", parse_duration, 5.0, "5s", "Longest time to connect to one server.",
    kafka_option="kafka.socket.connection.setup.timeout.ms",
)
MAX_CONTROL_LINE: Final = Option[int](
    "maxControlLine", "number of bytes", parse_line_size, 4096, "4096",
    "`max_control_line` of the servers. Longer subjects are refused.",
)
REQUEST_TIMEOUT: Final = Option[float](
    "requestTimeout", "duration", parse_duration, 5.0, "5s", "Longest wait for a reply of the JetStream API.",
    kafka_option="kafka.request.timeout.ms",
)
# fmt: on
