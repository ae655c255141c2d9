"""Converts a handle of the asyncio front into one of the blocking front, line by line (see `make_sync`).

A handle (`Connection`, `Subscription`, `Msg`) only documents its calls and passes them to its core. Both fronts have a
core with the same methods, so the conversion removes `async` and `await` and changes a few names.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["convert"]

_REPLACEMENTS: Final = (
    (r"  # noqa: ASYNC109[^\n]*", ""),
    (r"(?s)    def __await__\b.*?\n\n(?=    \S)", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"from jetspark\.aio\.subscription_info\b", "from jetspark.aio.subscription_info"),
    (r"\bjetspark\.aio\.jetstream\._drivers\.consume\b", "jetspark.sync._handwritten.consume"),
    (r"\bjetspark\.aio\.(?!subscription_info)", "jetspark.sync."),
    (
        r"from jetspark\.sync\.jetstream\.context import JetStream, open_context",
        ("from jetspark.sync.open_context import open_context\nfrom jetspark.sync.jetstream.context import JetStream"),
    ),
    (r"\bjetspark\.connect\b", "jetspark.sync.connect"),
    (r"\bAn async iterator\b", "An iterator"),
    (r"\ba task of its own\b", "a thread of its own"),
    (r"\bof the asyncio API\b", "of the blocking front"),
    (r"\bThe asyncio connection\b", "The blocking connection"),
    (r", or with `asyncio\.run`,\n    and gives", ",\n    and gives"),
    (r"It belongs to the event loop it was opened in\. ", "Any thread of the process may use it. "),
)
"""Patterns and what replaces them, in this order."""


def convert(source: str, name: str) -> str:
    """Return the text of a module of the blocking front, made from the text of `jetspark.aio.<name>`."""
    text = source
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    note = f"Made by `tools/make_sync.py` from `jetspark.aio.{name}`: change that, then `make sync`."
    first, end, rest = text.partition('"""\n')
    if "\n" in first.removeprefix('"""').strip():
        raise ValueError("the docstring of the module has more than one line")
    return f"{first}\n\n{note}\n{end}{rest}"
