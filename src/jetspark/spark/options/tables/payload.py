"""Options of the payloads: their format, and the columns that are decoded from them or encoded into them."""

from __future__ import annotations

__all__: list[str] = []
