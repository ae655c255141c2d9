"""Bytes as columns of text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["text_column"]


def text_column(values: pa.BinaryArray, target: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Return bytes as text, and which of them are not UTF-8; None means that all are."""
    try:
        return values.cast(target), None
    except pa.ArrowInvalid:
        texts = [None if each is None else each.decode("utf-8", "replace") for each in values.to_pylist()]
    done = pa.array(texts, target)
    # Only a text that was UTF-8 has the same bytes again.
    return done, pc.not_equal(done.cast(pa.binary()), values).fill_null(False).to_numpy(zero_copy_only=False)
