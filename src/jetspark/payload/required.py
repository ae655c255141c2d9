"""Fields that may not be null: a payload without a value for one of them is a bad record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.payload.formats import BadRecord, Decoded, PayloadFormat

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RequiredFields"]


@dataclass(frozen=True, slots=True)
class RequiredFields:
    """A format some of whose fields may not be null; see `PayloadFormat`.

    Attributes
    ----------
    format
        The format. Its own schema has nullable fields.
    names
        Names of the fields that may not be null.
    """

    format: PayloadFormat
    names: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self.format.schema

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Decode payloads. A row that has no value for one of the fields is a bad record; a null payload is none."""
        decoded = self.format.decode(payloads)
        bad = {record.row: record for record in decoded.bad}
        for name in self.names:
            column = decoded.rows.column(decoded.rows.schema.get_field_index(name))
            if not column.null_count:
                continue
            for row, (missing, there) in enumerate(
                zip(column.is_null().to_pylist(), payloads.is_valid().to_pylist(), strict=True)
            ):
                if missing and there:
                    bad.setdefault(row, BadRecord(row, f"the field {name}, which is NOT NULL, is missing or null"))
        return Decoded(decoded.rows, [bad[row] for row in sorted(bad)])

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Encode rows; see `PayloadFormat.encode`."""
        return self.format.encode(rows)
