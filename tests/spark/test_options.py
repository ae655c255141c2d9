"""Options: each one is parsed, and a wrong one is named without secrets."""

from __future__ import annotations

import pickle
import re

import pytest

from jetspark.errors import ConfigError
from jetspark.spark.options.batch import ReadOptions, read_options, write_options
from jetspark.spark.options.option import Use
from jetspark.spark.options.table import OPTIONS
from jetspark.spark.options.values import Position, PositionKind

SEQUENCE, TIME = PositionKind.SEQUENCE, PositionKind.TIME
EARLIEST, LATEST = Position(PositionKind.EARLIEST), Position(PositionKind.LATEST)


def read(**options: str) -> ReadOptions:
    return read_options({"stream": "ORDERS", **options})


def refused(**options: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    return str(caught.value)


@pytest.fixture(autouse=True)
def no_nats_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NATS_URL", raising=False)


def test_a_read_needs_only_the_stream() -> None:
    options = read()
    assert options.streams == ("ORDERS",)
    assert options.subjects == ()
    assert (options.starts, options.ends) == ({"ORDERS": EARLIEST}, {"ORDERS": LATEST})
    assert options.min_partitions is None
    assert options.max_records_per_partition is None
    assert not options.include_headers
    assert options.fail_on_data_loss
    assert options.server.connect.servers == ("nats://localhost:4222",)
    assert options.server.connect.tls is None
    assert options.server.api_prefix == "$JS.API."


def test_a_read_without_stream_names_the_option() -> None:
    with pytest.raises(ConfigError, match="option stream must be given"):
        read_options({})


def test_a_write_needs_no_option() -> None:
    options = write_options({})
    assert options.subject is None
    assert options.dedup
    assert (options.max_pending, options.ack_timeout) == (768, 5.0)


def test_option_names_are_case_insensitive() -> None:
    options = read_options({"STREAM": "A,B", "minpartitions": "4", "FAILONDATALOSS": "False"})
    assert (options.streams, options.min_partitions, options.fail_on_data_loss) == (("A", "B"), 4, False)


def test_servers_come_from_the_option_then_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://one:1, nats://two:2")
    assert read().server.connect.servers == ("nats://one:1", "nats://two:2")
    assert read(servers="three:3").server.connect.servers == ("three:3",)


def test_an_unreadable_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "http://u:geheim@one")
    text = refused()
    assert "NATS_URL" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("server", "servers"),
        ("minpartition", "minPartitions"),
        ("subscribe", "stream"),
        ("topic", "subject"),
        ("kafka.bootstrap.servers", "servers"),
        ("path", "stream"),
        ("qqqq", ""),
    ],
)
def test_an_unknown_option_is_reported_with_the_nearest_valid_one(unknown: str, nearest: str) -> None:
    text = refused(**{unknown: "geheim"})
    assert f"there is no option {unknown!r}; did you mean {nearest}" in text
    assert "geheim" not in text
    assert re.search(
        r"for a read are: .*\bstartingOffsets\b.*; and only for a streaming read: .*\bpollInterval\b", text
    )
    assert "maxPendingAcks" not in text


def test_options_of_the_other_direction_are_allowed_and_checked() -> None:
    assert read(maxPendingAcks="5") == read()
    assert write_options({"stream": "S", "startingOffsets": "earliest"}) == write_options({})
    assert "option maxPendingAcks is 'x'" in refused(maxPendingAcks="x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ('{"ORDERS": 17}', Position(SEQUENCE, 17)),
        ('{"ORDERS": -2}', EARLIEST),
        ('{"ORDERS": 9223372036854775809}', Position(SEQUENCE, 2**63 + 1)),
    ],
)
def test_starting_offsets_are_parsed(text: str, expected: Position) -> None:
    assert read(startingOffsets=text).starts == {"ORDERS": expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("LATEST", LATEST), ('{"ORDERS": 42}', Position(SEQUENCE, 42)), ('{"ORDERS": -1}', LATEST)],
)
def test_ending_offsets_are_parsed(text: str, expected: Position) -> None:
    assert read(endingOffsets=text).ends == {"ORDERS": expected}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1767225600000", 1_767_225_600_000_000_000),
        ("-1", -1_000_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000_000_000),
        ("2026-01-01T01:00:00.123456789+01:00", 1_767_225_600_123_456_789),
        ("20260101T000000+0000", 1_767_225_600_000_000_000),
    ],
)
def test_times_are_milliseconds_or_iso_text_exact_to_the_nanosecond(text: str, ns: int) -> None:
    assert read(startingTimestamp=text).starts == {"ORDERS": Position(TIME, ns)}
    assert read(endingTimestamp=text).ends == {"ORDERS": Position(TIME, ns)}


def test_a_time_without_zone_is_refused_with_the_valid_format() -> None:
    assert "write 2026-01-01T00:00:00Z" in refused(startingTimestamp="2026-01-01")
    assert "write 2026-01-01T12:30:00Z" in refused(startingTimestamp="2026-01-01T12:30:00")


def test_a_time_takes_precedence_over_times_by_stream_and_these_over_offsets() -> None:
    times = '{"ORDERS": "1970-01-01T00:00:02Z"}'
    options = read(startingOffsets='{"ORDERS": 9}', startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=times)
    assert options.starts == {"ORDERS": Position(TIME, 2_000_000_000)}
    assert options.ends == {"ORDERS": Position(TIME, 2_000_000_000)}
    options = read(startingOffsets='{"ORDERS": 9}', startingOffsetsByTimestamp=times, startingTimestamp="1000")
    assert options.starts == {"ORDERS": Position(TIME, 1_000_000_000)}


def test_every_stream_gets_its_own_position() -> None:
    options = read(stream="A, B", startingOffsets='{"A": 1, "B": -2}', endingOffsets='{"A": 5, "B": 6}')
    assert options.starts == {"A": Position(SEQUENCE, 1), "B": EARLIEST}
    assert options.ends == {"A": Position(SEQUENCE, 5), "B": Position(SEQUENCE, 6)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream": "A,B", "startingOffsets": '{"A": 1}'}, "option startingOffsets has no position for stream B"),
        ({"startingOffsets": '{"ORDERS": 1, "X": 1}'}, "option startingOffsets names stream X"),
        ({"startingOffsets": "latest"}, "starts at the latest message reads nothing"),
        ({"endingOffsets": "earliest"}, "ends at the earliest message reads nothing"),
        ({"startingOffsets": '{"ORDERS": 0}'}, "sequences start at 1"),
        ({"startingOffsets": '{"ORDERS": "5"}'}, "must be a whole number"),
        ({"startingOffsets": '{"ORDERS": true}'}, "must be a whole number"),
        ({"startingOffsets": "17"}, "it must be JSON"),
        ({"startingOffsets": "{"}, "it must be JSON"),
        ({"startingOffsets": '{"a b": 1}'}, "must not contain whitespace"),
        ({"startingOffsetsByTimestamp": '{"ORDERS": 1.5}'}, "the time of stream ORDERS"),
        ({"startingOffsetsByTimestamp": '{"ORDERS": "soon"}'}, "the time of stream ORDERS"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp is 'soon': it must be milliseconds since 1970"),
        ({"minPartitions": "0"}, "option minPartitions is '0': it must be a whole number, 1 or more"),
        ({"maxRecordsPerPartition": "many"}, "option maxRecordsPerPartition"),
        ({"includeHeaders": "yes"}, "option includeHeaders is 'yes': it must be true or false"),
        ({"arrowBatchBytes": "1k"}, "it must be 4096 or more"),
        ({"connectTimeout": "0"}, "option connectTimeout is '0': it must be a duration above 0"),
        ({"maxControlLine": "9"}, "option maxControlLine is '9': it must be a number of bytes, 256 or more"),
        ({"stream": "a.b"}, "option stream is 'a.b'"),
        ({"stream": " , "}, "option stream is ' , ': it is empty"),
        ({"subject": "a..b"}, "option subject is 'a..b'"),
        ({"inboxPrefix": "a.>"}, "option inboxPrefix"),
        ({"apiPrefix": "a b"}, "option apiPrefix"),
        ({"domain": "a.b"}, "option domain"),
        ({"servers": "http://x"}, "option servers: the server's URL: the scheme must be nats:// or tls://"),
    ],
)
def test_invalid_values_are_named(options: dict[str, str], said: str) -> None:
    assert said in refused(**options)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"domain": "a", "apiPrefix": "b"}, ("domain", "apiPrefix")),
        ({"user": "u", "token": "t"}, ("user", "token")),
        ({"credentials": "/f", "nkeySeed": "S"}, ("credentials", "nkeySeed")),
        ({"credentialsText": "x", "credentials": "/f"}, ("credentials", "credentialsText")),
        ({"password": "p"}, ("password", "user")),
        ({"tlsKey": "/k"}, ("tlsKey", "tlsCert")),
        ({"tlsKeyPassword": "p"}, ("tlsKeyPassword", "tlsCert")),
        ({"tlsVerify": "false", "tlsCa": "/c"}, ("tlsCa", "tlsVerify")),
        ({"tlsVerify": "false", "tlsHostname": "h"}, ("tlsHostname", "tlsVerify")),
        ({"servers": "nats://u:p@x", "user": "v"}, ("servers", "user")),
        ({"servers": "nats://t0ken@x", "credentials": "/f"}, ("servers", "credentials")),
        ({"startingTimestamp": "2000", "endingTimestamp": "1000"}, ("startingTimestamp", "endingTimestamp")),
        (
            {"startingOffsets": '{"ORDERS": 9}', "endingOffsets": '{"ORDERS": 8}'},
            ("startingOffsets (9)", "endingOffsets (8)"),
        ),
    ],
)
def test_both_conflicting_options_are_named(options: dict[str, str], names: tuple[str, str]) -> None:
    text = refused(**options)
    for name in names:
        assert name in text
    assert "t0ken" not in text


def test_a_token_and_credentials_are_sent_together() -> None:
    connect = read(token="t", credentials="/c").server.connect
    assert (connect.token, connect.credentials_file) == ("t", "/c")


def test_a_login_in_the_options_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "tls://u:p@one:1")
    connect = read(token="t").server.connect
    assert (connect.servers, connect.token) == (("tls://one:1",), "t")
    assert read().server.connect.servers == ("tls://u:p@one:1",)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("2 m", 120), ("1.5h", 5400), ("1500", 1.5), ("250us", 0.00025)]
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert read(connectTimeout=text).server.connect.connect_timeout == pytest.approx(seconds)
    assert read(requestTimeout=text).server.request_timeout == pytest.approx(seconds)
    assert write_options({"ackTimeout": text}).ack_timeout == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "size"), [("65536", 65536), ("64k", 65536), ("8MB", 8 << 20), ("1 GiB", 1 << 30)])
def test_sizes_are_parsed(text: str, size: int) -> None:
    options = read(arrowBatchBytes=text, maxBytesInFlight=text)
    assert (options.batch_bytes, options.bytes_in_flight) == (size, size)


def test_subject_filters_that_another_covers_are_dropped() -> None:
    assert read(subject="a.b.c, a.>, b").subjects == ("a.>", "b")
    assert read(subject="a, >").subjects == ()


def test_a_write_needs_one_literal_subject() -> None:
    assert write_options({"subject": "a.b"}).subject == "a.b"
    with pytest.raises(ConfigError, match="option subject names 2 subjects"):
        write_options({"subject": "a,b"})
    with pytest.raises(ConfigError, match=r"option subject: subject 'a\.>' has the wildcard"):
        write_options({"subject": "a.>"})
    with pytest.raises(ConfigError, match="option dedup is 'on': it must be auto or off"):
        write_options({"dedup": "on"})


def test_every_connection_option_reaches_the_connection() -> None:
    connect = read(
        servers="tls://a:1,b:2",
        user="u",
        password="p",
        tlsCa="/ca",
        tlsCert="/cert",
        tlsKey="/key",
        tlsKeyPassword="kp",
        tlsHostname="h",
        tlsFirst="true",
        inboxPrefix="_MY.INBOX",
        connectionName="job",
        connectTimeout="1s",
        maxControlLine="8192",
    ).server.connect
    assert connect.servers == ("tls://a:1", "b:2")
    assert (connect.user, connect.password, connect.name) == ("u", "p", "job")
    assert (connect.inbox_prefix, connect.connect_timeout, connect.max_control_line) == ("_MY.INBOX", 1.0, 8192)
    tls = connect.tls
    assert tls is not None
    assert (tls.ca_file, tls.cert_file, tls.key_file, tls.key_password) == ("/ca", "/cert", "/key", "kp")
    assert (tls.server_hostname, tls.verify, tls.handshake_first) == ("h", True, True)
    assert read(token="t").server.connect.token == "t"
    assert read(credentials="/c").server.connect.credentials_file == "/c"
    assert read(credentialsText="c").server.connect.credentials == "c"
    assert read(nkeySeed="S").server.connect.nkey_seed == "S"
    assert read(domain="hub").server.api_prefix == "$JS.hub.API."
    assert read(apiPrefix="imported.api").server.api_prefix == "imported.api."


def test_no_repr_and_no_error_shows_secrets() -> None:
    secrets = {
        "password": "geheim1",
        "user": "geheim2",
        "servers": "nats://host:1",
        "tlsCert": "/c",
        "tlsKeyPassword": "geheim3",
    }
    assert "geheim" not in repr(read(**secrets))
    assert "geheim" not in repr(read(token="geheim"))
    assert "geheim" not in repr(read(credentialsText="geheim"))
    assert "geheim" not in repr(read(nkeySeed="geheim"))
    assert "geheim" not in repr(read(servers="nats://u:geheim@host:1"))
    assert "geheim" not in refused(servers="nats://u:geheim@host:port")
    assert "geheim" not in refused(servers="http://u:geheim@host:1, tls://geheim@x")


def test_options_can_be_sent_to_the_executors() -> None:
    options = read(token="t", startingOffsets='{"ORDERS": 3}', subject="a.>")
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_table_is_complete_and_its_defaults_are_documented() -> None:
    names = [option.name for option in OPTIONS]
    assert len(set(map(str.lower, names))) == len(names)
    for option in OPTIONS:
        assert option.meaning.endswith(".")
        assert option.default_text
        assert option.kind
        assert option.use in Use
