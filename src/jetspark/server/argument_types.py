"""Checks of the types of arguments, by their annotations. This package is independent, so these checks are its own."""

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar, cast

from jetspark.server.errors import ServerArgumentError

__all__ = ["checks_arguments"]

T = TypeVar("T", bound=Callable[..., Any] | type)

_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    os.PathLike: "a path",
    Mapping: "a mapping",
    types.NoneType: "None",
}
_SHOWN = (bool, int, float, str)
_MAX_TEXT = 60


def checks_arguments(target: T) -> T:
    """Make a function, or the constructor and the public methods of a class, check the types of its arguments.

    A wrong type raises ServerArgumentError: one line with the argument, what it takes and what it got.
    """
    if not isinstance(target, type):
        return cast("T", _checked(target, target.__name__))
    for name, member in list(vars(target).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            where = target.__name__ if name == "__init__" else f"{target.__name__}.{name}"
            setattr(target, name, _checked(member, where))
    return target


def _checked(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments  # raises TypeError for an unknown argument
        for name, value in given.items():
            parameter = signature.parameters[name]
            for argument, each in value.items() if parameter.kind is parameter.VAR_KEYWORD else [(name, value)]:
                if not _fits(parameter.annotation, each):
                    raise _error(where, argument, parameter.annotation, each)
        return function(*args, **kwargs)

    return checked


def _fits(annotation: Any, value: object) -> bool:
    if annotation in {inspect.Parameter.empty, object, Any} or isinstance(annotation, TypeVar):
        return True
    origin, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return any(_fits(part, value) for part in parts)
    if origin in {None, types.NoneType}:
        return value is None
    if origin in {int, float}:
        return isinstance(value, Integral if origin is int else Real) and not isinstance(value, bool)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(parts[0], key) and _fits(parts[1], value[key]) for key in value)
    return isinstance(value, origin)


def _error(where: str, name: str, annotation: Any, value: object) -> ServerArgumentError:
    got = "None" if value is None else type(value).__name__
    if isinstance(value, _SHOWN):
        got = f"{got}: {value!r}"[:_MAX_TEXT]
    return ServerArgumentError(f"{where}: {name} takes {_describe(annotation)}, not {got}")


def _describe(annotation: Any) -> str:
    origin = typing.get_origin(annotation) or annotation
    if origin in {typing.Union, types.UnionType}:
        *others, last = map(_describe, typing.get_args(annotation))
        return f"{', '.join(others)} or {last}"
    if origin is Mapping:
        key, item = typing.get_args(annotation)
        return f"a mapping of {_describe(key)}" + ("" if item is object else f" to {_describe(item)}")
    return _WORDS.get(origin, getattr(origin, "__name__", str(origin)))
