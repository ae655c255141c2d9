"""The reason why a figure is left out of the table."""

from __future__ import annotations

__all__ = ["Unavailable"]


class Unavailable(Exception):  # noqa: N818 (not an error: the figure is left out, with this line as the reason)
    """A figure cannot be measured on this machine; the text says why."""
