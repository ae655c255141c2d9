"""Combinations of types that were checked once are not checked again, and no wrong value gets through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import pytest

from jetspark.jetstream.message_columns import ArrowStream
from jetspark.wire import argument_types
from jetspark.wire.argument_types import check_arguments, checks_arguments, field_kinds, kind_of
from jetspark.wire.errors import ArgumentError

if TYPE_CHECKING:
    from jetspark.jetstream import StreamInfo
    from jetspark.jetstream.api import Request


def call(text: str, number: float = 1.0, *, way: Literal["a", "b"] = "a", names: list[str] | None = None) -> str:
    return f"{text}{number}{way}{names}"


@checks_arguments()
class Handle:
    def call(self, text: str, *, way: Literal["a", "b"] = "a", names: list[str] | None = None) -> str:
        return f"{text}{way}{names}"

    async def wait(self, text: str) -> str:
        return text


def test_a_combination_is_remembered_if_the_types_decide() -> None:
    assert check_arguments(call, ("x",), {})
    assert check_arguments(call, ("x", 2), {"names": None})
    assert not check_arguments(call, ("x",), {"way": "a"})
    assert not check_arguments(call, ("x",), {"names": ["x"]})


def test_a_wrong_value_is_refused_after_a_right_one_of_its_type() -> None:
    handle = Handle()
    for _ in range(3):
        assert handle.call("x", way="b", names=["x"]) == "xb['x']"
        with pytest.raises(ArgumentError, match="way takes one of 'a', 'b'"):
            handle.call("x", way="c")  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="names takes a list of text or None"):
            handle.call("x", names=[1])  # type: ignore[list-item]


async def test_a_wrong_type_is_refused_after_a_right_one_and_in_another_place() -> None:
    handle = Handle()
    assert handle.call("x") == handle.call(text="x") == "xaNone"
    assert await handle.wait("x") == "x"
    for wrong in (1, None, b"x"):
        with pytest.raises(ArgumentError, match="text takes text"):
            handle.call(wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="text takes text"):
            await handle.wait(wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no argument 'txt'; did you mean 'text'"):
        handle.call(txt="x")  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="takes 1 argument by position"):
        handle.call("x", "b")  # type: ignore[call-arg]


def test_more_combinations_than_can_be_remembered_are_still_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_types, "_MAX_KNOWN_CALLS", 2)
    handle = Handle()
    texts = [type(f"Text{number}", (str,), {})("x") for number in range(4)]
    for _ in range(2):
        assert {handle.call(text) for text in texts} == {"xaNone"}
        with pytest.raises(ArgumentError):
            handle.call(3)  # type: ignore[arg-type]


def test_an_object_of_any_library_fits_a_protocol_by_its_methods() -> None:
    class Columns:
        def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
            return None

    kind = kind_of(Mapping[str, bytes] | ArrowStream)
    assert all(kind.fits(value) for value in (Columns(), {"a": b"1"}))
    assert not any(kind.fits(value) for value in ({"a": 1}, [b"1"], None, 5))
    assert kind.wanted == "a mapping of text to bytes or an ArrowStream"


class Requests:
    """A class with a type that only type checkers import, as a whole and with parts."""

    plain: StreamInfo
    parts: Request[str]
    list_of: list[Request[str]]


def test_a_type_that_only_type_checkers_import_accepts_anything() -> None:
    kinds = field_kinds(Requests)
    assert all(kinds[name].fits(5) for name in ("plain", "parts"))
    assert kinds["list_of"].fits([5])
    assert not kinds["list_of"].fits(5)
