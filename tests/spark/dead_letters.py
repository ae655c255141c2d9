"""Reads dead letters in tests."""

from __future__ import annotations

from tests.spark.support import Nats

__all__ = ["letters"]


def letters(nats: Nats, dead: str) -> list[dict[str, str]]:
    """Return the headers of the dead letters, and their payloads."""
    found = []
    for row in nats.rows(dead, "data", "headers"):
        headers = row["headers"]
        assert isinstance(headers, list)
        assert isinstance(row["data"], bytes)
        found.append({**{name: values[0] for name, values in headers}, "data": row["data"].decode()})
    return found
