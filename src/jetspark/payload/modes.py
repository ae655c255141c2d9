"""The treatment of bad records: one rule for all formats, with the names of Spark's option `mode`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from jetspark.jetstream.errors import PayloadError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jetspark.payload.formats import Decoded

__all__ = ["ParseMode", "check_fail_fast", "kept_rows"]


class ParseMode(Enum):
    """The treatment of payloads that cannot be decoded."""

    PERMISSIVE = "PERMISSIVE"
    """The row stays, with null where nothing could be read."""
    DROPMALFORMED = "DROPMALFORMED"
    """The row is left out, and counted."""
    FAILFAST = "FAILFAST"
    """The read fails with a PayloadError."""


def kept_rows(decoded: Decoded) -> NDArray[np.bool_]:
    """Return which rows are not bad records: one flag for each row."""
    import numpy as np

    kept = np.ones(decoded.rows.num_rows, bool)
    kept[[record.row for record in decoded.bad]] = False
    return kept


def check_fail_fast(decoded: Decoded, place: Callable[[int], str]) -> None:
    """Raise a PayloadError for the first bad record; `place` says where the payload of a row is from."""
    if decoded.bad:
        first = decoded.bad[0]
        raise PayloadError(f"{place(first.row)}: {first.reason}; mode PERMISSIVE keeps such rows")
