"""Checks many subjects that came from the network, before something is published to them.

One look at all bytes finds what may be wrong. Only then the scalar check decides, one subject at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.wire.errors import MaxControlLineError
from jetspark.wire.line_limits import MAX_CONTROL_LINE
from jetspark.wire.subjects import check_reply_subject
from jetspark.wire.vector.byte_spans import buffer_bytes, value_offsets

__all__ = ["check_reply_subjects"]

_DOT: Final = 46
_USUAL: Final = np.array([33 <= byte < 127 and byte not in b"*>" for byte in range(256)])
_ACK: Final = b"$JS.ACK."


def check_reply_subjects(subjects: pa.BinaryArray, max_size: int = MAX_CONTROL_LINE) -> None:
    """Check subjects, binary (n,) without nulls, as `check_reply_subject` does; each has at most `max_size` bytes.

    Raises BadSubjectError for the first one that nothing may be published to.
    """
    if len(subjects) and (size := pc.max(pc.binary_length(subjects)).as_py()) > max_size:
        raise MaxControlLineError(
            f"a received subject has {size} bytes, more than {max_size}", size=size, limit=max_size
        )
    if len(subjects) and not _are_usual(subjects):
        for subject in subjects:
            check_reply_subject(subject.as_py())


def _are_usual(subjects: pa.BinaryArray) -> bool:
    """Return whether all are ack subjects without anything unusual."""
    offsets = value_offsets(subjects)
    first, stop = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(buffer_bytes(subjects.buffers()[2]), np.uint8)[first:stop]
    dots = data == _DOT
    return bool(
        _USUAL[data].all()
        and not (dots[1:] & dots[:-1]).any()
        and not dots[offsets[1:] - first - 1].any()
        and pc.all(pc.starts_with(subjects, _ACK)).as_py()
        and not pc.any(pc.starts_with(subjects, _ACK + b"API.")).as_py()
    )
