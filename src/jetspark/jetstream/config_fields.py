"""Create a configuration from the caller's arguments: an object, keywords, or an object and keywords that change it.

Structs do not check their values. So this module refuses values of a wrong type, such as a text instead of a list, or a
number instead of a duration (its unit is not clear: the server expects nanoseconds). The error names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from jetspark.jetstream.codec import KeywordStruct
from jetspark.jetstream.errors import ArgumentError, ConfigError
from jetspark.wire.argument_types import check_fields, field_kinds
from jetspark.wire.arguments import check_names

__all__ = ["make_config"]

C = TypeVar("C", bound=KeywordStruct)


def make_config(cls: type[C], config: C | None, fields: Mapping[str, object]) -> C:
    """Return a copy of the configuration with `fields` set; the given configuration is not changed.

    Raises ConfigError if a field does not exist, a required one is missing, or a value has the wrong type.
    """
    if config is not None and not isinstance(config, cls):
        raise ArgumentError(
            f"the configuration must be of type {cls.__name__}, not {type(config).__name__}: {config!r}"
        )
    known = field_kinds(cls)
    check_names(cls.__name__, "field", fields, known)
    try:
        made = cls(**cast("dict[str, Any]", fields)) if config is None else config.replace(**fields)
    except TypeError as error:
        raise ConfigError(f"{cls.__name__}: {error}") from None
    check_fields(made)
    return made
