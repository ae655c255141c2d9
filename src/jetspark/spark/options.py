"""From the options that Spark hands over to checked values, for reading and for writing.

What is wrong is said before anything is done, by the option's name: an option that does not exist (with the nearest
that does), a value that cannot be read, two that contradict each other. Options of the other direction may be there, so
that a table that is read and written has one set of them. Values of secret options are in no message and in no `repr`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import api_prefix, check_publish_subject
from jetspark.jetstream.times import format_rfc3339
from jetspark.spark import option_table as table
from jetspark.spark.option_table import OPTIONS, Option, Use
from jetspark.spark.option_values import Position, PositionKind, read_texts
from jetspark.spark.subjects import EVERYTHING, reduce_filters
from jetspark.wire.options import ConnectOptions, TLSOptions, parse_address

__all__ = [
    "Given",
    "ReadOptions",
    "Sealed",
    "ServerOptions",
    "WriteOptions",
    "contradiction",
    "either_read_options",
    "make_read_options",
    "make_write_options",
    "read_options",
    "server_options",
    "write_options",
]

T = TypeVar("T")

SERVERS_VARIABLE: Final = "NATS_URL"
_DEFAULT_SERVERS: Final = "nats://localhost:4222"

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_OTHER_NAMES: Final = {
    **{option.kafka.lower(): option for option in OPTIONS if option.kafka and option.kafka.lower() not in _BY_NAME},
    "path": table.STREAM,
    "streams": table.STREAM,
    "filtersubjects": table.SUBJECT,
    "url": table.SERVERS,
}
_SPARKS_OWN: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)
"""What Spark reads of the options of `writeStream`, and hands over with ours."""
_OF_A_RANGE: Final = (
    table.STARTING_OFFSETS,
    table.STARTING_TIMESTAMP,
    table.STARTING_BY_TIMESTAMP,
    table.ENDING_OFFSETS,
    table.ENDING_TIMESTAMP,
    table.ENDING_BY_TIMESTAMP,
    table.MIN_PARTITIONS,
    table.MAX_RECORDS_PER_PARTITION,
)
_EARLIEST: Final = Position(PositionKind.EARLIEST)
_LATEST: Final = Position(PositionKind.LATEST)
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


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read was asked for.

    Attributes
    ----------
    server
        How to reach JetStream.
    streams
        Names of the streams.
    subjects
        Subject filters, none of which contains another; none for everything.
    starts, ends
        For each stream where to begin (included) and where to end (excluded; a streaming query has no end).
    min_partitions, max_records_per_partition
        How to split; None leaves it to the planning.
    include_headers
        The schema has the column `headers`.
    fail_on_data_loss
        Whether missing messages are an error or a warning.
    batch_rows, batch_bytes, bytes_in_flight
        Bounds of the record batches and of what is under way.
    retry_timeout
        Seconds that a task goes on trying when the server is away.
    last_per_subject
        Only the last message of every subject.
    """

    server: ServerOptions
    streams: tuple[str, ...]
    subjects: tuple[str, ...]
    starts: Mapping[str, Position]
    ends: Mapping[str, Position]
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    fail_on_data_loss: bool
    batch_rows: int
    batch_bytes: int
    bytes_in_flight: int
    retry_timeout: float
    last_per_subject: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a batch write was asked for.

    Attributes
    ----------
    server
        How to reach JetStream.
    subject
        Subject of all rows; None takes the column.
    dedup
        Give rows without a `msg_id` a message id.
    max_pending
        Most messages without acknowledgement.
    ack_timeout
        Seconds to wait for an acknowledgement.
    retry_timeout
        Seconds that a task goes on trying when the server is away.
    expected_stream
        Stream that all rows are meant for; None takes any.
    atomic
        Publish in atomic batches.
    """

    server: ServerOptions
    subject: str | None
    dedup: bool
    max_pending: int
    ack_timeout: float
    retry_timeout: float
    expected_stream: str | None
    atomic: bool


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a batch read. Raises ConfigError."""
    return make_read_options(Given(options, Use.READ), _EARLIEST)


def either_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check what holds for the options of a batch read and of a streaming one. Raises ConfigError."""
    return make_read_options(Given(options, Use.READ_STREAM), _EARLIEST)


def make_read_options(given: Given, start: Position) -> ReadOptions:
    """Check the options of a read, which begins at `start` unless they say otherwise. Raises ConfigError."""
    streams = given[table.STREAM]
    if not streams:
        raise ConfigError("option stream must be given: the name of the stream to read, or several with commas between")
    subjects = reduce_filters(given[table.SUBJECT])
    starts = _positions(
        given, streams, start, table.STARTING_TIMESTAMP, table.STARTING_BY_TIMESTAMP, table.STARTING_OFFSETS
    )
    ends = _positions(given, streams, _LATEST, table.ENDING_TIMESTAMP, table.ENDING_BY_TIMESTAMP, table.ENDING_OFFSETS)
    if given.use is Use.READ:
        for stream in streams:
            _check_order(stream, *starts[stream], *ends[stream])
    return ReadOptions(
        server=_server_options(given),
        streams=streams,
        subjects=() if subjects == (EVERYTHING,) else subjects,
        starts={stream: starts[stream][1] for stream in streams},
        ends={stream: ends[stream][1] for stream in streams},
        min_partitions=given[table.MIN_PARTITIONS],
        max_records_per_partition=given[table.MAX_RECORDS_PER_PARTITION],
        include_headers=given[table.INCLUDE_HEADERS],
        fail_on_data_loss=given[table.FAIL_ON_DATA_LOSS],
        batch_rows=given[table.ARROW_BATCH_ROWS],
        batch_bytes=given[table.ARROW_BATCH_BYTES],
        bytes_in_flight=given[table.MAX_BYTES_IN_FLIGHT],
        retry_timeout=given[table.RETRY_TIMEOUT],
        last_per_subject=_is_last_per_subject(given),
    )


def _is_last_per_subject(given: Given) -> bool:
    """Whether a read is a snapshot, for which there is neither a range nor a way to split it."""
    if given[table.MODE] == "all":
        return False
    for option in _OF_A_RANGE:
        if option in given:
            raise contradiction(option, table.MODE, f" = {given[table.MODE]}")
    return True


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of a batch write. Raises ConfigError."""
    return make_write_options(Given(options, Use.WRITE))


def make_write_options(given: Given) -> WriteOptions:
    """Check the options of a write. Raises ConfigError."""
    subjects = given[table.SUBJECT]
    if len(subjects) > 1:
        raise ConfigError(f"option subject names {len(subjects)} subjects; all rows can be published to one only")
    with _Naming(table.SUBJECT):
        subject = check_publish_subject(subjects[0]) if subjects else None
    return WriteOptions(
        server=_server_options(given),
        subject=subject,
        dedup=given[table.DEDUP] == "auto",
        max_pending=given[table.MAX_PENDING_ACKS],
        ack_timeout=given[table.ACK_TIMEOUT],
        retry_timeout=given[table.RETRY_TIMEOUT],
        expected_stream=given[table.EXPECTED_STREAM],
        atomic=given[table.ATOMIC],
    )


def server_options(options: Mapping[str, str]) -> ServerOptions:
    """Check the options that say how to reach JetStream. Raises ConfigError."""
    return _server_options(Given(options, Use.BOTH))


class Sealed(Mapping[str, str]):
    """Options that show neither names nor values, wherever they are printed."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __repr__(self) -> str:
        return f"<{len(self)} options>"

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


class _Naming:
    """Put an option's name before what a check inside says."""

    def __init__(self, option: Option[object]) -> None:
        self._option = option

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError):
            raise ConfigError(f"option {self._option.name}: {error}") from None


class Given:
    """The options that were given, all of them read; those that were not have their defaults.

    Parameters
    ----------
    options
        As Spark hands them over.
    use
        What for. Options for something else are read all the same.
    """

    def __init__(self, options: Mapping[str, str], use: Use) -> None:
        self.use = use
        self._values: dict[str, object] = {}
        for name in options:  # no value in a local variable: Spark can print those with a traceback
            if use is Use.WRITE_STREAM and name.lower() in _SPARKS_OWN:
                continue
            option = _BY_NAME.get(name.lower())
            if option is None:
                raise ConfigError(_unknown(name, use))
            self._values[option.name] = _value(option, options[name])

    def __contains__(self, option: Option[object]) -> bool:
        return option.name in self._values

    def __getitem__(self, option: Option[T]) -> T:
        return cast("T", self._values.get(option.name, option.default))


def _value(option: Option[T], text: str) -> T:
    try:
        return option.read(text)
    except ValueError as error:
        if option.secret:
            raise ConfigError(f"option {option.name} cannot be read (its value is not shown)") from None
        raise ConfigError(f"option {option.name} is {_shown(text)}: {error}") from None


def _shown(text: str) -> str:
    # URLs may hold a password.
    return repr(text if len(text) <= 200 else f"{text[:200]}...") if "@" not in text else "not shown"


def _unknown(name: str, use: Use) -> str:
    fitting = {key: option for key, option in _BY_NAME.items() if option.use in use.takes}
    nearest = (
        _OTHER_NAMES.get(name.lower()) or _BY_NAME[difflib.get_close_matches(name.lower(), fitting, n=1, cutoff=0.0)[0]]
    )
    names = ", ".join(sorted(option.name for option in fitting.values()))
    return f"there is no option {name!r}; did you mean {nearest.name}? The options for a {use.value} are: {names}"


def _positions(
    given: Given,
    streams: tuple[str, ...],
    default: Position,
    timestamp: Option[int | None],
    by_timestamp: Option[dict[str, int] | None],
    offsets: Option[Position | dict[str, Position]],
) -> dict[str, tuple[Option[object], Position]]:
    """For each stream the option that decides and the position; a time goes before a sequence, as in Kafka's source."""
    time, times, position = given[timestamp], given[by_timestamp], given[offsets]
    if offsets not in given:
        position = default
    if time is not None:
        return {stream: (timestamp, Position(PositionKind.TIME, time)) for stream in streams}
    if times is not None:
        _check_streams(by_timestamp, times, streams)
        return {stream: (by_timestamp, Position(PositionKind.TIME, times[stream])) for stream in streams}
    if isinstance(position, Position):
        return dict.fromkeys(streams, (offsets, position))
    _check_streams(offsets, position, streams)
    return {stream: (offsets, position[stream]) for stream in streams}


def _check_streams(option: Option[object], named: Mapping[str, object], streams: tuple[str, ...]) -> None:
    for name in named:
        if name not in streams:
            raise ConfigError(f"option {option.name} names stream {name}, option stream does not: {', '.join(streams)}")
    for name in streams:
        if name not in named:
            raise ConfigError(f"option {option.name} says nothing of stream {name}; give a position for every stream")


def _check_order(
    stream: str, start_option: Option[object], start: Position, end_option: Option[object], end: Position
) -> None:
    if start.kind is PositionKind.LATEST:
        raise ConfigError(f"option {start_option.name}: a batch read that starts at the latest message reads nothing")
    if end.kind is PositionKind.EARLIEST:
        raise ConfigError(f"option {end_option.name}: a batch read that ends at the earliest message reads nothing")
    if start.kind is end.kind and start.value > end.value:
        values = [format_rfc3339(p.value) if p.kind is PositionKind.TIME else str(p.value) for p in (start, end)]
        raise ConfigError(
            f"option {start_option.name} ({values[0]}) is behind option {end_option.name} ({values[1]}) "
            f"for stream {stream}"
        )


def _server_options(given: Given) -> ServerOptions:
    _check_login(given)
    _check_tls(given)
    if table.DOMAIN in given and table.API_PREFIX in given:
        raise contradiction(table.DOMAIN, table.API_PREFIX)
    with _Naming(table.DOMAIN if table.DOMAIN in given else table.API_PREFIX):
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


def contradiction(one: Option[object], other: Option[object], value: str = "") -> ConfigError:
    """Return the error that names two options of which only one can be given."""
    return ConfigError(f"options {one.name} and {other.name}{value} contradict each other; give one of them")
