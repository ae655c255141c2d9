"""Record batches to publish: checks their columns, and that every row can be sent, before any row is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import (
    BadHeadersError,
    BadSubjectError,
    ConfigError,
    MaxControlLineError,
    MaxPayloadError,
)
from jetspark.jetstream.header_names import MSG_ID
from jetspark.jetstream.message_columns import find_write_columns
from jetspark.jetstream.names import check_publish_subject
from jetspark.wire.line_limits import MessageLimits
from jetspark.wire.vector.encoder import max_frame_sizes
from jetspark.wire.vector.headers import encode_headers

__all__ = ["Rows", "check_schema"]

_WHOLE_ID: Final = rf"\r\n{MSG_ID}: *(?P<id>[^ \r][^\r]*)"
_ID: Final = rf"\r\n{MSG_ID}: *[^ \r]"


def check_schema(schema: pa.Schema, subject: str | None) -> None:
    """Check that record batches of this schema can be published.

    Parameters
    ----------
    subject
        Subject for all rows; then the column is not needed.

    Raises
    ------
    ConfigError
        A column is missing, unknown or there twice, or has a wrong type; the message names it.
    """
    find_write_columns(schema.names)
    wanted = {"data": _is_bytes, "headers": pa.types.is_map, "msg_id": _is_text}
    if subject is None:
        wanted["subject"] = _is_text
    has = ", ".join(f"{field.name} {field.type}" for field in schema) or "no column"
    for name in ("data",) if subject is not None else ("subject", "data"):
        if name not in schema.names:
            hint = ", or one subject for all rows" if name == "subject" else ""
            raise ConfigError(f"publishing needs a column {name!r}{hint}; the columns are: {has}")
    for name, fits in wanted.items():
        if name in schema.names and not fits(schema.field(name).type):
            raise ConfigError(f"column {name!r} has the type {schema.field(name).type}, which cannot be published")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(binary or pa.types.is_fixed_size_binary(kind)) or _is_text(kind)


@dataclass(slots=True)
class Rows:
    """Columns of a record batch, ready to be encoded.

    Attributes
    ----------
    first
        Number of the first row, counted over all record batches.
    subjects, payloads
        binary (n,).
    headers
        Header blocks, binary (n,); None if there are none.
    """

    first: int
    subjects: pa.BinaryArray
    payloads: pa.BinaryArray
    headers: pa.BinaryArray | None

    def __len__(self) -> int:
        return len(self.subjects)

    @classmethod
    def of(
        cls,
        batch: pa.RecordBatch,
        subject: str | None,
        first: int,
        limits: MessageLimits,
        header_lines: pa.Array | None = None,
    ) -> Rows:
        """Check all rows of a record batch; `header_lines` are those that the library adds, string (n,).

        Raises
        ------
        BadSubjectError, MaxControlLineError, BadHeadersError, MaxPayloadError
            A row cannot be sent; the message has its number and its content.
        """
        if subject is None:
            subjects = batch.column("subject")
            _check_subjects(batch, subjects, first, limits.subject)
            subjects = subjects.cast(pa.binary())
        else:
            _check_length(subject, limits.subject)
            subjects = pa.repeat(pa.scalar(subject.encode(), pa.binary()), len(batch))
        payloads = pc.fill_null(batch.column("data").cast(pa.binary()), b"")
        ids = batch.column("msg_id") if "msg_id" in batch.schema.names else None
        maps = batch.column("headers") if "headers" in batch.schema.names else None
        try:
            headers = encode_headers(maps, ids, header_lines)
        except BadHeadersError as error:
            row = error.row or 0
            raise BadHeadersError(
                f"row {first + row} ({describe(batch, row)}): {str(error).partition(': ')[2]}", row=first + row
            ) from None
        rows = cls(first, subjects, payloads, headers)
        rows._check_sizes(batch, limits.payload)
        return rows

    def all_have_ids(self) -> bool:
        """Whether every row has a message id, by which the stream detects repeats."""
        if self.headers is None:
            return not len(self)
        return pc.all(pc.fill_null(pc.match_substring_regex(self.headers, _ID), False), min_count=0).as_py() is True

    def message_ids(self) -> pa.StringArray:
        """Return the message ids, null for rows without one."""
        if self.headers is None:
            return pa.nulls(len(self), pa.string())
        return pc.struct_field(pc.extract_regex(self.headers, _WHOLE_ID), "id").cast(pa.string())

    def slice(self, at: int, count: int) -> Rows:
        """Return `count` rows from position `at` on."""
        headers = None if self.headers is None else self.headers.slice(at, count)
        return Rows(self.first + at, self.subjects.slice(at, count), self.payloads.slice(at, count), headers)

    def take(self, rows: list[int], first: int) -> Rows:
        """Return the rows at these positions, numbered from `first`."""
        places = pa.array(rows, pa.int64())
        headers = None if self.headers is None else self.headers.take(places)
        return Rows(first, self.subjects.take(places), self.payloads.take(places), headers)

    def _check_sizes(self, batch: pa.RecordBatch, limit: int) -> None:
        sizes = pc.binary_length(self.payloads)
        if self.headers is not None:
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(self.headers), 0))
        if len(self) and (largest := pc.max(sizes).as_py()) > limit:
            row = int(np.argmax(np.asarray(sizes)))
            raise MaxPayloadError(
                f"row {self.first + row} ({describe(batch, row)}): {largest} bytes of headers and payload exceed "
                f"the server's max_payload of {limit}",
                size=largest,
                limit=limit,
            )

    def chunks(self, max_rows: int, max_bytes: int, reply_length: int) -> Iterator[Rows]:
        """Yield runs of rows whose frames stay within the limits; a single row may be larger."""
        bound = np.cumsum(np.asarray(max_frame_sizes(self.subjects, self.payloads, reply_length, self.headers)))
        at = 0
        while at < len(self):
            before = int(bound[at - 1]) if at else 0
            fitting = int(np.searchsorted(bound, before + max_bytes, side="right"))
            stop = min(max(fitting, at + 1), at + max_rows, len(self))
            yield self.slice(at, stop - at)
            at = stop


def _check_subjects(batch: pa.RecordBatch, subjects: pa.Array, first: int, limit: int) -> None:
    if subjects.null_count:
        row = pc.index(pc.is_null(subjects), True).as_py()
        raise BadSubjectError(f"row {first + row} ({describe(batch, row)}): the subject is null")
    for subject in pc.unique(subjects).to_pylist():
        try:
            check_publish_subject(subject)
            _check_length(subject, limit)
        except BadSubjectError as error:
            row = pc.index(subjects, pa.scalar(subject, subjects.type)).as_py()
            error.args = (f"row {first + row} ({describe(batch, row)}): {error}",)
            raise error from None


def _check_length(subject: str, limit: int) -> None:
    """Raise MaxControlLineError if a subject makes the line of its message too long for the server."""
    if len(subject) > limit // 4 and (size := len(subject.encode())) > limit:
        raise MaxControlLineError(
            f"the subject has {size} bytes, and a control line of the server has room for {limit}; "
            "use a shorter one, or raise max_control_line of the server and of the connect options",
            size=size,
            limit=limit,
        )


def describe(batch: pa.RecordBatch, row: int) -> str:
    """Return the content of a row for an error message; long values are cut."""
    parts = []
    for name in ("subject", "msg_id", "data"):
        if name in batch.schema.names:
            value = batch.column(name)[row].as_py()
            shown = repr(value if value is None or len(value) <= 60 else value[:60])
            parts.append(f"{name} {shown}{'...' if value is not None and len(value) > 60 else ''}")
    return ", ".join(parts)
