"""Requests to a server's monitoring endpoint.

Each request uses its own `http.client` connection: it ignores the proxy settings of the environment, and no connection
stays open.
"""

import http.client
import json
from urllib.parse import urlencode

__all__ = ["get_json", "items_at", "number_at", "text_at"]


def get_json(host: str, port: int, path: str, query: dict[str, str], timeout: float) -> tuple[int, dict[str, object]]:
    """Return the HTTP status and the JSON object of the endpoint's answer.

    Raises:
        OSError: no connection, or no answer within `timeout` seconds.
        http.client.HTTPException: the answer is incomplete or not HTTP.
        ValueError: the answer is not a JSON object.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", f"{path}?{urlencode(query)}" if query else path)
        response = connection.getresponse()
        status, document = response.status, json.loads(response.read())
    finally:
        connection.close()
    if not isinstance(document, dict):
        raise ValueError(f"{path} answered {status} with {type(document).__name__}, not with a JSON object")  # noqa: TRY004
    return status, document


def text_at(document: object, *keys: str) -> str:
    """Return the string at a path of keys in a JSON document, or the empty string if there is none."""
    found = _at(document, keys)
    return found if isinstance(found, str) else ""


def number_at(document: object, *keys: str) -> int:
    """Return the integer at a path of keys in a JSON document, or 0 if there is none."""
    found = _at(document, keys)
    return found if isinstance(found, int) else 0


def items_at(document: object, *keys: str) -> list[object]:
    """Return the array at a path of keys in a JSON document, or an empty one if there is none."""
    found = _at(document, keys)
    return found if isinstance(found, list) else []


def _at(document: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document
