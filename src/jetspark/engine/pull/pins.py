"""Pin ids (ADR-42): one for each priority group of a consumer's handle, sent with all later pulls."""

from __future__ import annotations

__all__ = ["PinIds"]


class PinIds:
    """The pin ids of one handle. Fetch, next and consume share them (PRI-05)."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def get(self, group: str | None) -> str | None:
        """Return the id to send for a group, None if there is none."""
        return None if group is None else self._ids.get(group)

    def set(self, group: str, pin_id: str) -> None:
        """Store the id that a message had."""
        self._ids[group] = pin_id

    def clear(self, group: str | None) -> None:
        """Remove the id, as another client is the pinned one now (status 423, PRI-06)."""
        if group is not None:
            self._ids.pop(group, None)
