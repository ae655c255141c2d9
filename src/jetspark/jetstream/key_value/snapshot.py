"""Keys with their values as they were at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from jetspark.jetstream.key_value.entry import KeyValueEntry

__all__ = ["KeyValueSnapshot"]


class KeyValueSnapshot(Mapping[str, KeyValueEntry]):
    """The keys that had a value at one moment, and their entries: a mapping, in the order of the revisions.

    Attributes
    ----------
    revision
        The bucket's newest revision at that moment, as far as the read keys are concerned.
    """

    def __init__(self, entries: Mapping[str, KeyValueEntry], revision: int) -> None:
        self._entries = MappingProxyType(entries)
        self.revision = revision

    def __getitem__(self, key: str) -> KeyValueEntry:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<KeyValueSnapshot of {len(self)} keys at revision {self.revision}>"
