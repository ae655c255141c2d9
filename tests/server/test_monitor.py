"""Answers of a monitoring endpoint that are broken in any way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from jetspark.server.errors import ServerError
from jetspark.server.monitor import MonitorEndpoint, items_at, number_at, text_at

BROKEN = {
    "nothing": b"",
    "no JSON": b"<html>",
    "nested deeply": b'{"x":' * 100_000,
    "not UTF-8": b'{"x": "\xff"}',
    "thousands of digits": b'{"x": ' + b"9" * 5000 + b"}",
    "a list": b"[]",
    "a number": b"NaN",
}


@contextmanager
def answering(body: bytes) -> Iterator[MonitorEndpoint]:
    """A server that gives one answer to everything."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield MonitorEndpoint("127.0.0.1", server.server_port, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_is_an_error_that_names_the_address(body: bytes) -> None:
    with answering(body) as endpoint:
        with pytest.raises(ServerError, match="/varz"):
            endpoint.get("/varz", {}, 5.0)
        assert endpoint.config_load_time(5.0) is None
        assert "/healthz" in endpoint.health_error({}, 5.0)


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jetspark.server.monitor._LARGEST_ANSWER", 1000)
    with answering(b'{"x": "' + b"x" * 1000 + b'"}') as endpoint, pytest.raises(ServerError, match="more than 1000"):
        endpoint.get("/jsz", {}, 5.0)


@pytest.mark.parametrize("document", [None, 3, [], {"a": 1}, {"a": {"b": None}}, {"a": {"b": True}}, {"a": {"b": {}}}])
def test_fields_of_another_type_count_as_missing(document: object) -> None:
    assert text_at(document, "a", "b") == ""
    assert number_at(document, "a", "b") == 0
    assert items_at(document, "a", "b") == []
