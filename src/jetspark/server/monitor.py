"""Asks a server's monitoring endpoint.

A plain `http.client` connection for each question: no proxy settings of the environment apply, and nothing stays open.
"""

import http.client
import json
from urllib.parse import urlencode

__all__ = ["get", "text_at"]


def get(host: str, port: int, path: str, query: dict[str, str], timeout: float) -> tuple[int, dict[str, object]]:
    """Return the HTTP status and the JSON object that the endpoint answered.

    Raises:
        OSError: no connection, or no answer within `timeout` seconds.
        http.client.HTTPException: the answer broke off or is not HTTP.
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
    """Return the string at a path of keys in a JSON document, or the empty string where there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, str) else ""
