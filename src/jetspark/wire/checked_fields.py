"""Dataclasses whose constructor checks the types of its arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from jetspark.wire.argument_types import OTHER_WORDS, field_kinds, wrong_type
from jetspark.wire.arguments import did_you_mean
from jetspark.wire.errors import ArgumentError

__all__ = ["ChecksFields"]


class ChecksFields:
    """Base class of dataclasses whose constructor checks the types of its arguments first."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the arguments, and create the object."""
        call = (cls, *map(type, args), *kwargs, *map(type, kwargs.values()))
        if call not in _known_fields and _check_given_fields(cls, args, kwargs) and len(_known_fields) < _MAX_KNOWN:
            _known_fields.add(call)
        return super().__new__(cls)


_known_fields: Final[set[tuple[object, ...]]] = set()
_MAX_KNOWN: Final = 1000


def _check_given_fields(cls: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Check the arguments of a constructor; return whether every call with these types is right."""
    kinds = field_kinds(cls)
    fields = [field for field in dataclasses.fields(cls) if field.init]
    names = [field.name for field in fields]
    positional = [field.name for field in fields if not field.kw_only]
    by_type = True
    for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
        if name not in names:
            raise ArgumentError(f"{cls.__name__} has no argument {name!r}{did_you_mean(name, names, OTHER_WORDS)}")
        kind = kinds[name]
        if type(value) not in kind.exact:
            by_type = by_type and not kind.by_value
            if not kind.fits(value):
                raise wrong_type(cls.__name__, name, kind.wanted, value)
    return by_type
