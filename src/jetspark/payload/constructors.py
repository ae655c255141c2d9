"""Functions that return a format of payloads, with its options as keywords.

Made by `tools/make_formats.py` from `jetspark.payload.options`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.payload.formats import PayloadFormat, make_format
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["text_format"]


@checks_arguments()
def text_format(schema: pa.Schema) -> PayloadFormat:
    """Return the format `text`.

    Parameters
    ----------
    schema
        Columns to decode or to encode.

    Raises
    ------
    ConfigError
        An option has a wrong value, or the format cannot give a column of the schema.
    """
    return make_format("text", schema)
