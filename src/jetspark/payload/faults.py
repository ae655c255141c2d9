"""Which payloads of a column cannot be decoded, and why: the first fault of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.payload.formats import BadRecord, Decoded

__all__ = ["Faults"]

_MAX_REASON: Final = 200


class Faults:
    """The faults of a column of payloads. A null payload has none, and its row is null."""

    def __init__(self, payloads: pa.Array) -> None:
        self.bad: NDArray[np.bool_] = payloads.is_null().to_numpy(zero_copy_only=False).copy()
        self._reasons: dict[int, str] = {}

    def mark(self, rows: NDArray[np.int64], reason: str) -> None:
        """Note a fault of payloads. The first fault of a payload is kept."""
        for row in rows[~self.bad[rows]].tolist():
            self._reasons[row] = reason
        self.bad[rows] = True

    def add(self, faults: Faults, rows: NDArray[np.int64]) -> None:
        """Note the faults of a part of the column: the payloads `rows`."""
        self.bad[rows] |= faults.bad
        self._reasons.update((int(rows[row]), reason) for row, reason in faults._reasons.items())

    def decoded(self, columns: Sequence[pa.Array], schema: pa.Schema) -> Decoded:
        """Return the rows; one with a fault is null in every column."""
        if self.bad.any():
            places = pa.array(np.arange(len(self.bad)), mask=self.bad)
            columns = [column.take(places) for column in columns]
        rows = pa.RecordBatch.from_arrays(list(columns), schema=schema)
        return Decoded(rows, [BadRecord(row, one_line(reason)) for row, reason in sorted(self._reasons.items())])


def one_line(text: str) -> str:
    """Return a text as one line of limited length."""
    return " ".join(text[: 2 * _MAX_REASON].split())[:_MAX_REASON]
