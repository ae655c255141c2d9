"""A type checker finds wrong keywords of calls, and accepts right ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api
from tools.make_keywords import ROOT

HEAD = """\
from datetime import timedelta
import jetspark
from jetspark import bulk, sync

async def use(js: jetspark.JetStream, stream: jetspark.Stream, consumer: jetspark.Consumer) -> None:
"""
RIGHT = """\
    await js.create_stream(name="S", subjects=["a.>"], max_age=timedelta(days=1), storage="memory")
    await js.update_stream(name="S", retention="limits")
    await js.create_or_update_stream(name="S")
    await stream.update(max_msgs=1)
    await stream.create_consumer(durable_name="d", ack_wait=timedelta(seconds=30), deliver_policy="new")
    await js.create_consumer("S", durable_name="d", timeout=1)
    await js.publish("a", b"x", msg_id="1", headers={"A": "b"})
    await consumer.fetch(10, timeout=5, group="g")
    consumer.consume(max_messages=10)
    await jetspark.connect("nats://a", user="u", password=lambda: "p", servers=["nats://b"])
    sync.connect(user="u", max_reconnects=None)
    bulk.connect(token="t")
    payload: jetspark.Payload = b""
    headers: jetspark.HeadersLike = {"a": "b"}
    info: jetspark.ServerInfo
"""
WRONG = {
    'await js.create_stream(subject="a")': "subject",
    'await js.create_stream(name="S", max_age=5)': "max_age",
    'await js.update_stream(name="S", max_mesages=5)': "max_mesages",
    'await js.create_or_update_stream(name="S", subjects="a.>")': "subjects",
    "await stream.update(replicas=3)": "replicas",
    'await js.create_consumer("S", durable="d")': "durable",
    'await js.create_consumer("S", durable_name="d", ack_wait=30)': "ack_wait",
    'await stream.create_consumer(durable="d")': "durable",
    "await stream.create_or_update_consumer(ack_wait=30)": "ack_wait",
    'await stream.update_consumer(filter="a")': "filter",
    'await js.publish("a", b"x", message_id="1")': "message_id",
    "await consumer.fetch(10, expires=5)": "expires",
    "consumer.consume(max_message=10)": "max_message",
    'await jetspark.connect("nats://a", usr="u")': "usr",
    "await jetspark.connect(max_reconnects='all')": "max_reconnects",
    'sync.connect("nats://a", usr="u")': "usr",
    'bulk.connect("nats://a", usr="u")': "usr",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Messages of mypy, by line number."""
    place = tmp_path_factory.mktemp("types")
    (place / "use.py").write_text(HEAD + RIGHT + "".join(f"    {line}\n" for line in WRONG))
    said, problem, _ = api.run(
        [str(place / "use.py"), "--strict", "--hide-error-context", "--no-error-summary", "--show-error-codes",
         "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(place / "cache")]
    )  # fmt: skip
    assert problem == ""
    lines = [line.split(":", 2) for line in said.splitlines() if Path(line.split(":")[0]).name == "use.py"]
    found: dict[int, str] = {}
    for _, number, text in lines:
        found[int(number)] = found.get(int(number), "") + text
    return found


def test_right_keywords_pass(complaints: dict[int, str]) -> None:
    last = len((HEAD + RIGHT).splitlines())
    assert {number: text for number, text in complaints.items() if number <= last} == {}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_keyword_is_found(call: str, complaints: dict[int, str]) -> None:
    number = len((HEAD + RIGHT).splitlines()) + 1 + list(WRONG).index(call)
    assert f'"{WRONG[call]}"' in complaints.get(number, "nothing")
