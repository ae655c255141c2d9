"""Requests to a server's monitoring endpoint.

Each request uses its own `http.client` connection: it ignores the proxy settings of the environment, and no connection
stays open.
"""

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlencode

from jetspark.server.errors import ServerError

__all__ = ["MonitorEndpoint", "items_at", "number_at", "text_at"]

_LARGEST_ANSWER = 64 << 20


@dataclass(frozen=True, slots=True)
class MonitorEndpoint:
    """The monitoring endpoint of a server. `url` is its URL without a path."""

    host: str
    port: int
    url: str

    def get(self, path: str, query: dict[str, str], timeout: float) -> tuple[int, dict[str, object]]:
        """Return the HTTP status and the JSON object of the answer.

        Raises:
            ServerError: no answer within `timeout` seconds, or the answer is not a JSON object of at most 64 MiB.
        """
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request("GET", f"{path}?{urlencode(query)}" if query else path)
            response = connection.getresponse()
            status, text = response.status, response.read(_LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerError(f"no answer from {self.url}{path} ({error})") from error
        finally:
            connection.close()
        if len(text) > _LARGEST_ANSWER:
            raise ServerError(f"{self.url}{path} answered with more than {_LARGEST_ANSWER} bytes")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:  # also not UTF-8, a number of thousands of digits
            raise ServerError(f"{self.url}{path} answered {status} with a text that is not JSON ({error})") from error
        if not isinstance(document, dict):
            found = type(document).__name__
            raise ServerError(f"{self.url}{path} answered {status} with {found}, not with a JSON object")
        return status, document

    def health_error(self, query: dict[str, str], timeout: float) -> str:
        """Return the error that ``/healthz`` reports, or why it does not answer; empty if the server is healthy."""
        try:
            status, answer = self.get("/healthz", query, timeout)
        except ServerError as error:
            return str(error)
        return "" if status == http.client.OK else text_at(answer, "error") or f"/healthz answered {status}"

    def config_load_time(self, timeout: float) -> str | None:
        """Return when the server read its configuration, as ``/varz`` reports it; None without an answer."""
        try:
            return text_at(self.get("/varz", {}, timeout)[1], "config_load_time")
        except ServerError:
            return None


def text_at(document: object, *keys: str) -> str:
    """Return the string at a path of keys in a JSON document, or the empty string if there is none."""
    found = _at(document, keys)
    return found if isinstance(found, str) else ""


def number_at(document: object, *keys: str) -> int:
    """Return the integer at a path of keys in a JSON document, or 0 if there is none."""
    found = _at(document, keys)
    return found if type(found) is int else 0


def items_at(document: object, *keys: str) -> list[object]:
    """Return the array at a path of keys in a JSON document, or an empty one if there is none."""
    found = _at(document, keys)
    return found if isinstance(found, list) else []


def _at(document: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document
