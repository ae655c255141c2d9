"""Callbacks that do not keep the object of their method alive."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

__all__ = ["weakly"]


def weakly(method: Callable[..., object]) -> Callable[..., None]:
    """Return a function that calls a method while its object exists."""
    reference = WeakMethod(method)

    def call(*args: object) -> None:
        alive = reference()
        if alive is not None:
            alive(*args)

    return call
