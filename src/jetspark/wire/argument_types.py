"""Checks of the types of arguments, by the annotations of the public calls.

`checks_arguments` wraps a function, or every public method of a class, so that a wrong type raises one line that names
the parameter, what it takes and what it got. The annotations are read at the first call. Types of which every value is
accepted are remembered, so the next call with them costs one look-up. The most frequent calls (publish without an
answer, acknowledge) are not wrapped: they explain a failure when it happens, with `check_arguments`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from numbers import Integral, Real
from typing import Any, Final, TypeVar, cast

from jetspark.wire.arguments import did_you_mean
from jetspark.wire.errors import ArgumentError

__all__ = [
    "OTHER_WORDS",
    "Kind",
    "check_arguments",
    "check_fields",
    "check_timeout",
    "checks_arguments",
    "field_kinds",
    "kind_of",
    "wrong_type",
]

T = TypeVar("T", bound=Callable[..., Any] | type)

_SHOWN: Final = (bool, int, float, str, timedelta, date)
"""Types whose values an error message shows. Others may hold a secret, or be long."""
_MAX_TEXT: Final = 60
_SECRETS: Final = frozenset(
    {"credentials", "environ", "key_password", "nkey_seed", "options", "password", "servers", "tls", "token", "where"}
)
_MAX_KNOWN_CALLS: Final = 64
"""Number of combinations of types that are remembered for each function."""
_MAX_ITEMS: Final = 100  # examined in a long sequence


class Kind:
    """The values that a parameter accepts.

    Parameters
    ----------
    wanted
        Its description, for error messages.
    fits
        Whether a value is accepted.
    exact
        Types of which every value is accepted.
    by_value
        Whether only some values of a type may be accepted.
    """

    __slots__ = ("by_value", "exact", "fits", "wanted")

    def __init__(
        self, wanted: str, fits: Callable[[Any], bool], exact: tuple[type, ...] = (), *, by_value: bool = False
    ) -> None:
        self.wanted = wanted
        self.fits = fits
        self.exact = frozenset(exact)
        self.by_value = by_value


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


_PLAIN: Final[dict[object, Kind]] = {
    bool: Kind("True or False", lambda value: isinstance(value, bool), (bool,)),
    int: Kind("a whole number", _is_whole, (int,)),
    float: Kind("a number", _is_number, (float, int)),
    str: Kind("text", lambda value: isinstance(value, str), (str,)),
    bytes: Kind("bytes", lambda value: isinstance(value, bytes), (bytes,)),
    bytearray: Kind("bytearray", lambda value: isinstance(value, bytearray), (bytearray,)),
    memoryview: Kind("memoryview", lambda value: isinstance(value, memoryview), (memoryview,)),
    types.NoneType: Kind("None", lambda value: value is None, (types.NoneType,)),
    timedelta: Kind("a timedelta", lambda value: isinstance(value, timedelta), (timedelta,)),
    datetime: Kind("a datetime", lambda value: isinstance(value, datetime), (datetime,)),
}
_ANYTHING: Final = Kind("anything", lambda _: True)
OTHER_WORDS: Final = {
    "batch": "max_messages",
    "cb": "callback",
    "durable": "durable_name",
    "expires": "timeout",
    "heartbeat": "idle_heartbeat",
    "message_id": "msg_id",
    "seq": "sequence",
    "stream": "expected_stream",
}
"""Words of other clients for arguments of calls."""


class _Unknown(type):
    """Stands for names that only type checkers import."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return Any

    def __getitem__(cls, parts: object) -> object:
        return Any


class _Unresolved(metaclass=_Unknown):
    pass


class _Names(dict[str, object]):
    """The names of a module; those that it does not have at runtime are unresolved."""

    def __missing__(self, name: str) -> object:
        if name.startswith("__"):  # pytest looks for such a name in a failure
            raise KeyError(name)
        return getattr(builtins, name, _Unresolved)


def kind_of(annotation: Any) -> Kind:
    """Return the kind of a resolved annotation; one that is not understood accepts anything."""
    if (plain := _PLAIN.get(annotation) if isinstance(annotation, abc.Hashable) else None) is not None:
        return plain
    if annotation is None:
        return _PLAIN[types.NoneType]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {types.UnionType, typing.Union}:
        return _any_of([kind_of(part) for part in parts])
    if origin is typing.Literal:
        words = ", ".join(map(repr, parts))
        return Kind(
            f"one of {words}",
            lambda value: any(type(value) is type(part) and value == part for part in parts),
            by_value=True,
        )
    if origin is abc.Callable or annotation is abc.Callable:
        return Kind("a function", callable)
    if getattr(annotation, "_is_runtime_protocol", False):
        return _instance_of(annotation)
    if getattr(origin or annotation, "_is_protocol", False) or annotation is Any or isinstance(annotation, _Unknown):
        return _ANYTHING
    if origin is not None and isinstance(origin, type):
        return _container(origin, [kind_of(part) for part in parts if part is not Ellipsis])
    if isinstance(annotation, type) and annotation is not object:
        if typing.is_typeddict(annotation):
            return Kind("a dict", lambda value: isinstance(value, dict))
        if issubclass(annotation, Enum) and issubclass(annotation, str):
            return Kind("a member of its enumeration or its text", lambda value: isinstance(value, str), (str,))
        return _instance_of(annotation.__mro__[1] if annotation.__mro__[1] in {timedelta, datetime} else annotation)
    return _ANYTHING


def _instance_of(named: type) -> Kind:
    article = "an" if named.__name__[0] in "AEIO" else "a"
    return Kind(f"{article} {named.__name__}", lambda value: isinstance(value, named))


def _any_of(kinds: list[Kind]) -> Kind:
    if any(kind is _ANYTHING for kind in kinds):
        return _ANYTHING
    kinds.sort(key=lambda kind: kind.wanted == "None")
    *before, last = dict.fromkeys(kind.wanted for kind in kinds)
    wanted = f"{', '.join(before)} or {last}" if before else last
    exact = frozenset().union(*(kind.exact for kind in kinds))
    by_value = any(kind.by_value for kind in kinds)
    return Kind(wanted, lambda value: any(kind.fits(value) for kind in kinds), tuple(exact), by_value=by_value)


def _container(origin: type, parts: list[Kind]) -> Kind:
    if issubclass(origin, abc.Mapping):
        key, item = parts if len(parts) == 2 else (_ANYTHING, _ANYTHING)
        return Kind(
            f"a mapping of {key.wanted} to {item.wanted}",
            lambda value: (
                isinstance(value, abc.Mapping)
                and all(
                    (type(name) in key.exact or key.fits(name)) and (type(each) in item.exact or item.fits(each))
                    for name, each in value.items()
                )
            ),
            by_value=True,
        )
    if origin is tuple and len(parts) > 1:
        return Kind(
            f"a pair of {' and '.join(part.wanted for part in parts)}",
            lambda value: (
                isinstance(value, (tuple, list))
                and len(value) == len(parts)
                and all(part.fits(each) for part, each in zip(parts, value, strict=True))
            ),
            by_value=True,
        )
    if issubclass(origin, abc.Iterable):
        item = parts[0] if parts else _ANYTHING
        noun = "a list" if issubclass(origin, abc.Sized) else "an iterable"
        sequence: type | tuple[type, ...] = (list, tuple) if origin in {list, tuple} else origin
        return Kind(
            f"{noun} of {item.wanted}" if item is not _ANYTHING else noun,
            lambda value: (
                isinstance(value, sequence)
                and not isinstance(value, (str, bytes, bytearray, abc.Mapping))
                and (not isinstance(value, (list, tuple)) or all(item.fits(each) for each in value[:_MAX_ITEMS]))
            ),
            by_value=True,
        )
    return Kind(f"a {origin.__name__}", lambda value: isinstance(value, origin))


def wrong_type(where: str, name: str, wanted: str, value: object) -> ArgumentError:
    """Return the error for an argument of a wrong type: the parameter, what it takes and what it got."""
    got = type(value).__name__
    if value is None:
        got = "None"
    elif name not in _SECRETS and isinstance(value, _SHOWN):
        got = f"{got}: {value!r}"[:_MAX_TEXT]
    elif isinstance(value, (list, tuple)) and (items := sorted({type(each).__name__ for each in value[:_MAX_ITEMS]})):
        got = f"{got} of {' and '.join(items)}"
    hint = "; give seconds" if isinstance(value, timedelta) and "a number" in wanted else ""
    return ArgumentError(f"{where}: {name} takes {wanted}, not {got}{hint}")


@functools.cache
def field_kinds(cls: Any) -> dict[str, Kind]:
    """Return what each field of a dataclass, struct or TypedDict accepts."""
    names = _Names()
    for base in reversed(cls.__mro__):  # inherited fields have annotations in the words of their own modules
        names |= vars(sys.modules[base.__module__])
    hints = typing.get_type_hints(cls, localns=names)
    return {name: kind_of(hint) for name, hint in hints.items() if not name.startswith("_")}


def check_fields(value: object, where: str = "") -> None:
    """Check the type of every field of a dataclass or struct.

    Raises
    ------
    ArgumentError
        A field has a value of a wrong type.
    """
    cls: Any = type(value)
    for name, kind in field_kinds(cls).items():
        field = getattr(value, name)
        if type(field) not in kind.exact and not kind.fits(field):
            raise wrong_type(where or cls.__name__, name, kind.wanted, field)


def checks_arguments(*, unchecked: Collection[str] = ()) -> Callable[[T], T]:
    """Return a decorator that makes a function, or the public methods of a class, check the types of its arguments.

    Parameters
    ----------
    unchecked
        Frequent methods, which are left as they are.
    """

    def decorate(target: T) -> T:
        if not isinstance(target, type):
            return cast("T", _checked(target))
        for name, member in list(vars(target).items()):
            if inspect.isfunction(member) and not name.startswith("_") and name not in unchecked:
                setattr(target, name, _checked(member))
        return target

    return decorate


def check_arguments(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Check the arguments of one call, without `self`; return whether every call with these types is right.

    Raises
    ------
    ArgumentError
        An argument has a wrong type, there is no argument of that name, or too many are given by position.
    """
    positional, named, any_more = _parameters(function)
    by_type = True
    for (name, kind), value in zip(positional, args, strict=False):
        if type(value) not in kind.exact:
            by_type = by_type and not kind.by_value
            if not kind.fits(value):
                raise wrong_type(function.__name__, name, kind.wanted, value)
    for name, value in kwargs.items():
        if (found := named.get(name)) is None:
            raise ArgumentError(f"{function.__name__} has no argument {name!r}{did_you_mean(name, named, OTHER_WORDS)}")
        if type(value) not in found.exact:
            by_type = by_type and not found.by_value
            if not found.fits(value):
                raise wrong_type(function.__name__, name, found.wanted, value)
    if len(args) > len(positional) and not any_more:
        by_name = ", ".join(name for name in named if name not in {each for each, _ in positional})
        count = len(positional)
        raise ArgumentError(
            f"{function.__name__} takes {count} argument{'' if count == 1 else 's'} by position"
            + (f"; give the others by name: {by_name}" if by_name else "")
        )
    return by_type


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[list[tuple[str, Kind]], dict[str, Kind], bool]:
    """Return the parameters by position, those by name, and whether any number is taken by position; not `self`."""
    names = _Names(vars(sys.modules[function.__module__]))
    hints = typing.get_type_hints(function, localns=names)
    positional: list[tuple[str, Kind]] = []
    named: dict[str, Kind] = {}
    any_more = False
    for parameter in inspect.signature(function).parameters.values():
        kind = kind_of(hints.get(parameter.name, Any))
        match parameter.kind:
            case parameter.VAR_POSITIONAL:
                any_more = True
            case parameter.VAR_KEYWORD:
                (fields,) = typing.get_args(hints[parameter.name]) or (None,)
                named |= field_kinds(fields) if typing.is_typeddict(fields) else {}
            case _ if parameter.name != "self":
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    positional.append((parameter.name, kind))
                named[parameter.name] = kind
    return positional, named, any_more


def check_timeout(where: str, timeout: object) -> None:
    """Check the `timeout` of a frequent call, if one is given.

    Raises
    ------
    ArgumentError
        It is not a number.
    """
    if type(timeout) is not float and not _PLAIN[float].fits(timeout):
        raise wrong_type(where, "timeout", "a number or None", timeout)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(function).parameters)
    own = int(parameters[:1] == ["self"])
    if len(parameters) == own:
        return function
    known: set[tuple[object, ...]] = set()  # types and names of calls that are right

    def check(call: tuple[object, ...], args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        if check_arguments(function, args[own:], kwargs) and len(known) < _MAX_KNOWN_CALLS:
            known.add(call)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def checked_coroutine(*args: Any, **kwargs: Any) -> Any:
            if (call := (*map(type, args), *kwargs, *map(type, kwargs.values()))) not in known:
                check(call, args, kwargs)
            return await function(*args, **kwargs)

        return checked_coroutine

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if (call := (*map(type, args), *kwargs, *map(type, kwargs.values()))) not in known:
            check(call, args, kwargs)
        return function(*args, **kwargs)

    return checked
