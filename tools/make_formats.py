"""Makes the functions that return a format of payloads, with its options as typed keywords.

They are made from the table of options (`jetspark.payload.options`), so that an option is written only once.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from jetspark.payload.formats import FORMATS
from jetspark.payload.options import FORMAT_OPTIONS, FormatOption

PATH: Final = "payload/constructors.py"
_WIDTH: Final = 112


def lines() -> Iterator[str]:
    """Yield the text of the module."""
    yield '"""Functions that return a format of payloads, with its options as keywords.\n'
    yield "Made by `tools/make_formats.py` from `jetspark.payload.options`: change that, then `make sync`."
    yield '"""'
    yield "from __future__ import annotations"
    yield "from typing import TYPE_CHECKING"
    yield "from jetspark.payload.formats import PayloadFormat, make_format"
    yield "from jetspark.payload.options import given_options"
    yield "from jetspark.wire.argument_types import checks_arguments"
    yield "if TYPE_CHECKING:"
    yield "    import pyarrow as pa"
    yield f"\n__all__ = {sorted(f'{name}_format' for name in FORMATS)!r}"
    for name in FORMATS:
        yield from _function(name, [option for option in FORMAT_OPTIONS if name in option.formats])


def _function(name: str, options: list[FormatOption]) -> Iterator[str]:
    yield "\n\n@checks_arguments()"
    keywords = [f"{keyword(option)}: {_type(option)} | None = None" for option in options]
    parameters = ["schema: pa.Schema", *(["*"] if keywords else []), *keywords]
    yield f"def {name}_format({', '.join(parameters)}) -> PayloadFormat:"
    yield f'    """Return the format `{name}`.{" An option that is None has its default." if options else ""}\n'
    yield "    Parameters"
    yield "    ----------"
    yield "    schema"
    yield "        Columns to decode or to encode."
    for option in options:
        yield f"    {keyword(option)}"
        default = (option.default_text or "empty").replace("\\", "a backslash")
        text = f"{option.meaning.rstrip('.')}. Default: {default}."
        yield textwrap.fill(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    yield "\n    Raises"
    yield "    ------"
    yield "    ConfigError"
    yield "        An option has a wrong value, or the format cannot give a column of the schema."
    yield '    """'
    given = ", ".join(_argument(option) for option in options)
    yield f'    return make_format("{name}", schema{f", given_options({given})" if given else ""})'


def keyword(option: FormatOption) -> str:
    """Return the name of an option in snake case: `timestampNTZFormat` is `timestamp_ntz_format`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", option.name.replace(".", "_")).lower()


def _argument(option: FormatOption) -> str:
    name = option.name
    return f"{name}={keyword(option)}" if name.isidentifier() else f'**{{"{name}": {keyword(option)}}}'


def _type(option: FormatOption) -> str:
    if option.kind == "true or false":
        return "bool"
    return type(option.default).__name__ if isinstance(option.default, (int, float)) else "str"
