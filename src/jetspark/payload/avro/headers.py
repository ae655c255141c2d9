"""The headers before Avro records: the single-object header, and the header of Confluent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.payload.faults import Faults
from jetspark.wire.vector.byte_spans import buffer_bytes, gather_spans, value_offsets

__all__ = ["CONFLUENT", "SINGLE_OBJECT", "Headed", "Header", "split_headers"]

SINGLE_OBJECT: Final = b"\xc3\x01"
CONFLUENT: Final = b"\x00"


@dataclass(frozen=True)
class Header:
    """A kind of header: a fixed start, then the name of the schema.

    Attributes
    ----------
    start
        Its first bytes.
    size
        Bytes of the name of the schema.
    what
        The kind of this name, for errors.
    """

    start: bytes
    size: int
    what: str

    @property
    def length(self) -> int:
        """Bytes of the header."""
        return len(self.start) + self.size

    def name_text(self, name: bytes) -> str:
        """Return the name of a schema as errors show it: an id is a number, a fingerprint is shown as its bytes."""
        return str(int.from_bytes(name, "big")) if self.start == CONFLUENT else name.hex()


@dataclass(frozen=True)
class Headed:
    """The records of payloads with one schema.

    Attributes
    ----------
    schema
        Place of the schema in the list of names.
    rows
        Rows of the payloads.
    records
        Payloads without headers; None if nothing was cut off and all payloads are here.
    """

    schema: int
    rows: NDArray[np.int64]
    records: pa.BinaryArray


def split_headers(
    payloads: pa.BinaryArray, header: Header, names: Sequence[bytes | None], faults: Faults
) -> list[Headed]:
    """Return the records of payloads, by the schemas that their headers name.

    Parameters
    ----------
    payloads
        Payloads.
    header
        The kind of header that they must have.
    names
        Names of the known schemas. None takes all names.
    faults
        Gets the payloads without such a header, or with another schema.
    """
    offsets = value_offsets(payloads)
    starts, ends = offsets[:-1], offsets[1:]
    buffer = payloads.buffers()[2] or pa.py_buffer(b"")
    data = np.frombuffer(buffer_bytes(buffer), np.uint8)
    rows = np.arange(len(payloads))
    there = rows[(ends - starts >= header.length) & ~faults.bad]
    heads = (
        data[starts[there][:, None] + np.arange(header.length)]
        if len(there)
        else np.zeros((0, header.length), np.uint8)
    )
    first = len(header.start)
    right = (heads[:, :first] == np.frombuffer(header.start, np.uint8)).all(axis=1)
    wrong = np.ones(len(rows), bool)
    wrong[there[right]] = False
    faults.mark(rows[wrong], f"the payload does not begin with the header {header.start.hex()} and a {header.what}")
    there, heads = there[right], heads[right]
    open_ = np.ones(len(there), bool)
    found = []
    for at, name in enumerate(names):
        chosen = open_ if name is None else open_ & (heads[:, first:] == np.frombuffer(name, np.uint8)).all(axis=1)
        if chosen.any():
            mine = there[chosen]
            records = gather_spans(buffer, starts[mine] + header.length, ends[mine])
            found.append(Headed(at, mine, records))
        open_ = open_ & ~chosen
    for row, head in zip(there[open_].tolist(), heads[open_], strict=True):
        unknown = header.name_text(head[first:].tobytes())
        faults.mark(np.array([row]), f"the payload has a schema that is not known: {header.what} {unknown}")
    return found
