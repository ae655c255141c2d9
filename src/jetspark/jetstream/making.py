"""A configuration as the caller gives it: an object, keywords, or an object and keywords that change it.

Structs do not look at their values. So a text where a list belongs, or a number where a duration belongs (seconds? the
server takes nanoseconds), is refused here, where it can still be told by the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar, cast

from msgspec import inspect

from jetspark.jetstream.codec import JsonStruct
from jetspark.jetstream.errors import ConfigError

__all__ = ["make_config"]

C = TypeVar("C", bound=JsonStruct)


def make_config(cls: type[C], config: C | None, fields: Mapping[str, object]) -> C:
    """Return the configuration with the fields set on top; the one that was given stays as it is.

    Raises ConfigError when there is no such field, a needed one is missing, or a value is of another kind.
    """
    if config is not None and not isinstance(config, cls):
        raise ConfigError(f"a {cls.__name__} is wanted, not {type(config).__name__}: {config!r}")
    known = _kinds(cls)
    for name in fields:
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise ConfigError(f"{cls.__name__} has no field {name!r}" + (f"; {close[0]!r}?" if close else ""))
    try:
        made = cls(**cast("dict[str, Any]", fields)) if config is None else config.replace(**fields)
    except TypeError as error:
        raise ConfigError(f"{cls.__name__}: {error}") from None
    for name, (kinds, wanted) in known.items():
        value = getattr(made, name)
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise ConfigError(f"{cls.__name__}.{name} takes {wanted}, not {type(value).__name__}: {value!r}")
    return made


_KINDS: Final[dict[type[inspect.Type], tuple[tuple[type, ...], str]]] = {
    inspect.BoolType: ((bool,), "True or False"),
    inspect.IntType: ((int,), "a whole number"),
    inspect.StrType: ((str,), "text"),
    inspect.EnumType: ((str,), "a member of its enumeration or its text"),
    inspect.ListType: ((list, tuple), "a list"),
    inspect.DictType: ((dict,), "a mapping"),
}


@cache
def _kinds(cls: type[JsonStruct]) -> dict[str, tuple[tuple[type, ...], str]]:
    """By field, the Python types that it takes, and how to say so."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return {field.name: _kind(field.type) for field in info.fields}


def _kind(kind: inspect.Type) -> tuple[tuple[type, ...], str]:
    match kind:
        case inspect.UnionType(types=types):
            return next(_kind(part) for part in types if not isinstance(part, inspect.NoneType))
        case inspect.StructType(cls=struct):
            return (struct,), f"a {struct.__name__}"
        case inspect.CustomType(cls=custom):  # Duration and Timestamp, exact forms of the standard library's types
            plain = custom.__mro__[1]
            return (plain,), f"a {plain.__name__}"
        case _:
            return _KINDS[type(kind)]
