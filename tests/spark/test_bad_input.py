"""Bad input gets a clear error that names the fault, shows no secret, and leaves nothing half done."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.support import Nats, running

from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest
from jetspark.server import NatsServer

pytestmark = pytest.mark.spark

SECRET = "geheim-0815"
LOCALS = "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled"


def failing(action: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def reading(spark: SparkSession, **options: str) -> str:
    """Return the error of a read."""
    return failing(lambda: spark.read.format("jetstream").options(**{"stream": "S", **options}).load().count())


def writing(frame: DataFrame, mode: str = "append", **options: str) -> str:
    """Return the error of a write."""
    return failing(lambda: frame.write.format("jetstream").options(**options).mode(mode).save())


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 'a.b' AS subject, 'x' AS data")


@contextlib.contextmanager
def free_port() -> Iterator[int]:
    """Return a port without a listener."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def test_an_unreachable_server_is_named_without_credentials(spark: SparkSession, rows: DataFrame) -> None:
    with free_port() as port:
        begin = time.monotonic()
        for text in (
            reading(spark, servers=f"nats://me:{SECRET}@127.0.0.1:{port}"),
            writing(rows, servers=f"127.0.0.1:{port}", token=SECRET),
        ):
            assert f"127.0.0.1:{port}" in text
            assert "ConnectError" in text
            assert SECRET not in text
        assert time.monotonic() - begin < 30


def test_a_server_that_does_not_answer_is_given_up_after_the_timeout(spark: SparkSession) -> None:
    lasted: list[float] = []

    def listen_in_silence() -> None:
        """Accept connections and record how long each of them waits, without the time of Spark."""
        with contextlib.suppress(OSError):  # the end of the test
            while True:
                opened, _ = silent.accept()
                begin = time.monotonic()
                with opened:
                    opened.recv(1)
                lasted.append(time.monotonic() - begin)

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        listener = threading.Thread(target=listen_in_silence)
        listener.start()
        try:
            text = reading(spark, servers=f"127.0.0.1:{port}", connectTimeout="300ms", retryTimeout="500ms")
        finally:
            silent.shutdown(socket.SHUT_RDWR)
            listener.join(30)
    assert not listener.is_alive()
    assert f"127.0.0.1:{port}" in text
    assert "no answer in time" in text
    assert 0.2 < min(lasted) < 4  # 5 without the option


def test_a_stopped_server_is_an_error_even_with_a_kept_connection(spark: SparkSession, rows: DataFrame) -> None:
    with running() as nats:
        stream = nats.filled(3)
        frame = spark.read.format("jetstream").options(servers=nats.url, stream=stream, retryTimeout="300ms").load()
        assert frame.count() == 3
        address = nats.url.removeprefix("nats://")
        nats.server.stop()
        assert address in failing(frame.count)
        assert address in writing(rows, servers=nats.url)


def test_a_wrong_login_is_refused_and_not_shown(spark: SparkSession, rows: DataFrame) -> None:
    with NatsServer(config={"authorization": {"user": "me", "password": "right"}}) as server:
        spark.conf.set(LOCALS, "true")
        try:
            for text in (
                reading(spark, servers=server.url, user="me", password=SECRET),
                reading(spark, servers=server.url, token=SECRET),
                writing(rows, servers=server.url, user="me", password=SECRET),
                writing(rows, servers=server.url.replace("://", f"://me:{SECRET}@")),
            ):
                assert "AuthenticationError" in text
                assert SECRET not in text
        finally:
            spark.conf.unset(LOCALS)
        assert "AuthenticationError" in reading(spark, servers=server.url)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NatsServer, Path]]:
    """A server with TLS, and the authority of its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    files = {"cert_file": str(folder / "cert.pem"), "key_file": str(folder / "key.pem")}
    with NatsServer(config={"tls": {**files, "timeout": 30}}) as server:  # by default it waits 2 s for the handshake
        yield server, folder / "ca.pem"


def test_a_tls_mismatch_is_reported(
    spark: SparkSession, rows: DataFrame, nats: Nats, tls: tuple[NatsServer, Path]
) -> None:
    server, authority = tls
    assert re.search("TLSError.*certificate cannot be verified", reading(spark, servers=server.url))
    assert "TLSError" in writing(rows, servers=server.url)
    assert "TLSError" in reading(spark, servers=nats.url, tlsCa=str(authority))
    assert "/nowhere.pem" in reading(spark, servers=server.url, tlsCa="/nowhere.pem")
    assert "10059" in reading(spark, servers=server.url, tlsCa=str(authority))  # it works with the right one
    assert "10059" in reading(spark, servers=server.url, tlsVerify="false")


def test_a_server_without_jetstream_is_reported(spark: SparkSession) -> None:
    with NatsServer(jetstream=False) as server:
        text = reading(spark, servers=server.url)
        assert "JetStreamNotEnabledError" in text
        assert "503" in text
    accounts = {"NONE": {"users": [{"user": "n", "password": "n"}]}, "JS": {"jetstream": "enabled", "users": []}}
    with NatsServer(config={"accounts": accounts}) as server:
        assert re.search("JetStreamNotEnabled.*10039", reading(spark, servers=server.url, user="n", password="n"))


def test_a_missing_stream_is_named_with_the_servers_code(spark: SparkSession, nats: Nats) -> None:
    text = reading(spark, servers=nats.url, stream="NOWHERE")
    assert re.search("StreamNotFoundError.*NOWHERE.*10059", text)


def test_a_wrong_domain_is_reported(spark: SparkSession, nats: Nats) -> None:
    assert "JetStreamNotEnabledError" in reading(spark, servers=nats.url, domain="elsewhere")


def test_a_missing_permission_is_reported_with_its_subject(spark: SparkSession) -> None:
    permissions = {"publish": ["$JS.API.STREAM.INFO.*"], "subscribe": ["_INBOX.>"]}
    accounts = {
        "A": {
            "jetstream": "enabled",
            "users": [
                {"user": "all", "password": "all"},
                {"user": "some", "password": "some", "permissions": permissions},
            ],
        }
    }
    with NatsServer(config={"accounts": accounts}) as server:
        from jetspark import bulk

        with bulk.connect(server.url, user="all", password="all") as connection:
            connection.request(StreamCreateRequest(StreamConfig(name="P", subjects=["p"])))
            bulk.publish(connection, [_one("p")])
        text = reading(spark, servers=server.url, user="some", password="some", stream="P", retryTimeout="1s")
    assert re.search(r"PermissionsViolationError.*\$JS\.API\.CONSUMER\.CREATE\.P", text)


def _one(subject: str) -> object:
    import pyarrow as pa

    return pa.record_batch({"subject": [subject], "data": [b""]})


def test_an_unknown_option_is_named_with_the_nearest_valid_one(
    spark: SparkSession, rows: DataFrame, nats: Nats
) -> None:
    text = reading(spark, servers=nats.url, startingOffset=SECRET)
    assert "there is no option 'startingoffset'; did you mean startingOffsets?" in text
    assert SECRET not in text
    assert "did you mean maxPendingAcks?" in writing(rows, servers=nats.url, maxPending="5")
    text = failing(lambda: spark.read.format("jetstream").load("ORDERS"))
    assert "there is no option 'path'; did you mean stream?" in text


def test_both_conflicting_options_are_named(spark: SparkSession, nats: Nats) -> None:
    assert "options domain and apiPrefix contradict" in reading(spark, servers=nats.url, domain="a", apiPrefix="b")


def test_offsets_outside_the_stream_report_the_missing_sequences(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(10)
    nats.purge(stream, before=5)
    options = {"servers": nats.url, "stream": stream, "startingOffsets": f'{{"{stream}": 2}}'}
    assert f"stream {stream}: sequences 2 to 4 are gone" in reading(spark, **options)
    frame = spark.read.format("jetstream").options(**options, failOnDataLoss="false").load()
    assert frame.count() == 6


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("sequence bigint, offset bigint", "there is no column offset to read; did you mean"),
        ("sequence string", "column sequence can only be read as bigint or int, not string"),
        ("headers map<string,string>", "column headers can only be read as map<string,array<string>>, not"),
        ("timestamp bigint", "column timestamp can only be read as timestamp or timestamp_ntz, not bigint"),
        ("data binary, DATA string", "twice"),
    ],
)
def test_an_unreadable_schema_is_refused(spark: SparkSession, nats: Nats, schema: str, said: str) -> None:
    stream = nats.filled(1)
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream)
    text = failing(lambda: reader.schema(schema).load().collect())
    assert said in text or "COLUMN_ALREADY_EXISTS" in text


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("'a' AS subject", "the rows have no column data (the payload, binary or string); they have subject string"),
        ("'a' AS data", "the rows have no column subject (string), and option subject is not given; they have data"),
        ("1 AS data, 'a' AS subject", "column data can only be written from binary or string, not int"),
        ("'a' AS data, 1 AS subject", "column subject can only be written from string, not int"),
        ("'a' AS data, 'b' AS subject, 'c' AS header", "no column header to write; did you mean headers?"),
        (
            "'a' AS data, 'b' AS subject, 'c' AS headers",
            "column headers can only be written from map<string,array<string>>",
        ),
        ("'a' AS data, 'b' AS subject, 1 AS msg_id", "column msg_id can only be written from string, not int"),
    ],
)
def test_missing_columns_are_refused_during_planning(spark: SparkSession, nats: Nats, select: str, said: str) -> None:
    assert said in writing(spark.sql(f"SELECT {select}"), servers=nats.url)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("CAST(NULL AS STRING) AS subject, 'lost' AS data", r"subject None, .*data 'lost'\): the subject is null"),
        ("'{s}.*' AS subject, 'lost' AS data", "has the wildcard"),
        ("'{s}.a' AS subject, repeat('x', 1048577) AS data", r"xxx.*exceed the server's max_payload of 1048576"),
        ("'{s}.a' AS subject, 'lost' AS data, map('k', 'a\\nb') AS headers", "data 'lost'.*CR"),
    ],
)
def test_rows_that_cannot_be_sent_are_shown_and_nothing_of_their_batch_is_sent(
    spark: SparkSession, nats: Nats, select: str, said: str
) -> None:
    stream = nats.stream()
    good = spark.sql(f"SELECT '{stream}.good' AS subject, 'good' AS data")
    bad = spark.sql(f"SELECT {select.format(s=stream)}")
    if "headers" in bad.columns:
        good = good.selectExpr("*", "map('k', 'v') AS headers")
    text = writing(good.union(bad).coalesce(1), servers=nats.url)
    assert re.search(said, text)
    assert "row 1 " in text
    assert nats.rows(stream) == []


def test_rows_that_the_server_refuses_are_named_with_its_error(
    spark: SparkSession, nats: Nats, rows: DataFrame
) -> None:
    assert re.search("row 0, subject 'a.b': no stream captures the subject", writing(rows, servers=nats.url))
    stream = nats.stream(max_msg_size=200)
    large = spark.sql(f"SELECT '{stream}.a' AS subject, repeat('x', 300) AS data")
    assert re.search(f"row 0, subject '{stream}.a': .*10054", writing(large, servers=nats.url))


def test_a_stream_supports_only_append(spark: SparkSession, nats: Nats, rows: DataFrame) -> None:
    assert "mode overwrite is not supported" in writing(rows, "overwrite", servers=nats.url)
    for mode in ("error", "ignore"):
        assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in writing(rows, mode, servers=nats.url)


def test_a_failed_sequence_expectation_is_reported(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream(first_seq=2**31 - 1)
    nats.publish([f"{stream}.a"] * 2)
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream)
    assert "declare it bigint" in failing(lambda: reader.schema("sequence int").load().collect())


@pytest.mark.parametrize("mode", ["simple", "extended", "codegen", "cost", "formatted"])
def test_explain_shows_no_secret(spark: SparkSession, mode: str) -> None:
    with NatsServer(config={"authorization": {"user": "me", "password": SECRET}}) as server:
        servers = server.url.replace("://", f"://me:{SECRET}@")
        for options in ({"servers": servers}, {"servers": server.url, "user": "me", "password": SECRET}):
            from jetspark import bulk

            with bulk.connect(servers) as connection:
                connection.request(StreamCreateRequest(StreamConfig(name="E", subjects=["e"])))
            frame = spark.read.format("jetstream").options(stream="E", **options).load().where("sequence > 1")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                frame.explain(mode=mode)
            assert "jetstream" in printed.getvalue()
            assert SECRET not in printed.getvalue()
            assert SECRET not in repr(frame)


@pytest.mark.parametrize(
    "options",
    [
        {"servers": f"nats://me:{SECRET}@127.0.0.1:1"},
        {"servers": f"nats://127.0.0.1:2,nats://{SECRET}@127.0.0.1:1"},
        {"user": SECRET, "password": SECRET},
        {"token": SECRET},
        {"credentialsText": SECRET},
        {"nkeySeed": SECRET},
        {"NKEYSEED": SECRET},
        {"tlsCert": "/x", "tlsKeyPassword": SECRET},
    ],
)
def test_the_plan_of_a_streaming_query_shows_no_secret(spark: SparkSession, options: dict[str, str]) -> None:
    """Spark prints the options of a streaming source, so it must know which ones to hide (`recommended_conf`)."""
    given = {"servers": "nats://127.0.0.1:1", "stream": "SHOWN", **options}
    frame = spark.readStream.format("jetstream").options(**given).load()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.where("sequence > 1").explain(extended=True)
    assert "stream=SHOWN" in printed.getvalue()
    assert SECRET not in printed.getvalue()
    assert SECRET not in repr(frame)
