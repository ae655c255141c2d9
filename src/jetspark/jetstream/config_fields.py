"""Create a configuration from the caller's arguments: an object, keywords, or an object and keywords that change it.

Structs do not check their values. So this module refuses values of a wrong type, such as a text instead of a list, or a
number instead of a duration (its unit is not clear: the server expects nanoseconds). The error names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

from msgspec import inspect

from jetspark.jetstream.codec import JsonStruct
from jetspark.jetstream.errors import ConfigError
from jetspark.wire.arguments import check_names

__all__ = ["make_config"]

C = TypeVar("C", bound=JsonStruct)


def make_config(cls: type[C], config: C | None, fields: Mapping[str, object]) -> C:
    """Return a copy of the configuration with `fields` set; the given configuration is not changed.

    Raises ConfigError if a field does not exist, a required one is missing, or a value has the wrong type.
    """
    if config is not None and not isinstance(config, cls):
        raise ConfigError(f"the configuration must be of type {cls.__name__}, not {type(config).__name__}: {config!r}")
    known = _kinds(cls)
    check_names(cls.__name__, "field", fields, known)
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
    """Return for each field the Python types that it accepts, and their description."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return {field.name: _kind(field.type) for field in info.fields}


def _kind(kind: inspect.Type) -> tuple[tuple[type, ...], str]:
    match kind:
        case inspect.UnionType(types=types):
            return next(_kind(part) for part in types if not isinstance(part, inspect.NoneType))
        case inspect.StructType(cls=struct):
            return (struct,), f"a {struct.__name__}"
        case inspect.CustomType(cls=custom):  # Duration and Timestamp: the standard library's types are accepted too
            plain = custom.__mro__[1]
            return (plain,), f"a {plain.__name__}"
        case _:
            return _KINDS[type(kind)]
