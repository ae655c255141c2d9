"""A compact set of message ids: sixteen bytes for each id.

A stream may contain the ids of many publishers, far more than the ids of one task. Digests of sixteen bytes are enough
to distinguish them. If two ids had the same digest, a row would be lost; among 10^9 ids, the probability is about
10^-21.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["IdSet"]

_DIGEST_BYTES: Final = 16

_Digests = NDArray[np.uint64]
"""Two words for each id."""


class IdSet:
    """A set of message ids."""

    def __init__(self) -> None:
        self._unsorted: list[_Digests] = []
        self._sorted: _Digests = _digests(pa.array([], pa.string()))

    def add(self, ids: pa.StringArray) -> None:
        """Add ids; nulls are ignored."""
        if len(ids):
            self._unsorted.append(_digests(ids.drop_null()))

    def contains(self, ids: pa.StringArray) -> pa.BooleanArray:
        """Return for each id whether it is in the set."""
        if self._unsorted:
            self._sort()
        if not len(self._sorted):
            return pa.array(np.zeros(len(ids), dtype=bool))
        wanted = _digests(ids)
        at = np.searchsorted(self._sorted[:, 0], wanted[:, 0])
        nearest = self._sorted[np.minimum(at, len(self._sorted) - 1)]
        return pa.array((nearest == wanted).all(axis=1))

    def _sort(self) -> None:
        whole = np.concatenate([self._sorted, *self._unsorted])
        self._unsorted.clear()
        self._sorted = whole[np.argsort(whole[:, 0])]


def _digests(ids: pa.StringArray) -> _Digests:
    texts = ids.cast(pa.binary()).to_pylist()
    digests = b"".join([blake2b(text or b"", digest_size=_DIGEST_BYTES).digest() for text in texts])
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)
