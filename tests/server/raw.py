"""The smallest client that can test a server: a socket, and lines.

The tests of `jetspark.server` use no client of the library.
"""

import json
import select
import socket
import time
from typing import Self

_TIMEOUT = 30.0
_CONNECT = {"verbose": False, "protocol": 1, "headers": True, "no_responders": True}


class RawConnection:
    """A connected socket that has read INFO and sent CONNECT."""

    def __init__(self, host: str, port: int, **connect: object) -> None:
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT)
        self._file = self._socket.makefile("rb")
        self._inbox = 0
        try:
            self.info = self.info_with("server_id")
            self.send(f"CONNECT {json.dumps({**_CONNECT, **connect})}\r\nPING\r\n")
            self.answer = self.line()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def readable(self, timeout: float) -> bool:
        """Return whether anything arrives within `timeout` seconds."""
        return bool(select.select([self._socket], [], [], timeout)[0])

    def skip_notices(self) -> None:
        """Read INFO and PING frames that have arrived. The server may send them at any time."""
        while self.readable(0):
            line = self._line()
            assert line.startswith(("INFO ", "PING")), line

    def line(self) -> str:
        """Return the next line that is neither INFO nor PING. The server may send these at any time."""
        while (line := self._line()).startswith(("INFO ", "PING")):
            pass
        return line

    def info_with(self, key: str) -> dict[str, object]:
        """Return the next INFO that has a key."""
        while True:
            kind, _, document = self._line().partition(" ")
            info = json.loads(document) if kind == "INFO" else {}
            if key in info:
                assert isinstance(info, dict)
                return info

    def _line(self) -> str:
        line = self._file.readline().decode()
        assert line, "the server closed the connection"
        return line.rstrip("\r\n")

    def request(self, subject: str, body: object = "") -> dict[str, object]:
        """Send JSON (or nothing) and return the JSON object of the answer.

        The request is repeated while nobody listens: a server of a cluster may not know other subscriptions yet.
        """
        payload = json.dumps(body) if body != "" else ""
        deadline = time.monotonic() + _TIMEOUT
        while (answer := self._ask(subject, payload)) is None:
            assert time.monotonic() < deadline, f"nobody listens to {subject}"
            time.sleep(0.01)
        return answer

    def _ask(self, subject: str, payload: str) -> dict[str, object] | None:
        """None: there is no responder."""
        self._inbox += 1
        inbox = f"_INBOX.{self._inbox}"
        once = f"SUB {inbox} {self._inbox}\r\nUNSUB {self._inbox} 1\r\n"
        self.send(f"{once}PUB {subject} {inbox} {len(payload)}\r\n{payload}\r\n")
        while (words := self.line().split(" "))[1:2] != [inbox]:
            assert words == ["PONG"], words
        content = self._file.read(int(words[-1]) + 2)
        if words[0] == "HMSG":
            assert content.startswith(b"NATS/1.0 503"), content
            return None
        answer = json.loads(content)
        assert isinstance(answer, dict)
        return answer

    def create_stream(self, name: str, replicas: int = 1) -> None:
        config = {"name": name, "subjects": [f"{name}.>"], "num_replicas": replicas}
        deadline = time.monotonic() + _TIMEOUT
        while "error" in (answer := self.request(f"$JS.API.STREAM.CREATE.{name}", config)):
            # A cluster that has just started places nothing on a server whose resources are not known yet.
            assert "peer offline" in str(answer), answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)

    def publish(self, subject: str) -> int:
        """Publish into a stream and return the sequence of the ack."""
        sequence = self.request(subject, {})["seq"]
        assert isinstance(sequence, int)
        return sequence
