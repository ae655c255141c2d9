"""A wrong type of any argument of the managed server gives one line that names it, what it takes and what it got."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from jetspark.server import NatsCluster, NatsServer, ServerArgumentError, find_binary

VALUES: Final[dict[str, object]] = {
    "text": "x", "bytes": b"x", "whole": 5, "number": 0.5, "bool": True, "none": None, "list": ["x"],
    "mapping": {"x": 1}, "path": Path("x"), "function": print, "object": object(),
}  # fmt: skip
TAKES: Final = {
    str: "text", int: "whole", float: "whole number", bool: "bool", type(None): "none", Mapping: "mapping",
}  # fmt: skip


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public call of the package."""
    yield "find_binary", find_binary
    for cls in (NatsServer, NatsCluster):
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
                yield f"{cls.__name__}.{name}", member


CALLS: Final = dict(calls())


def accepted(annotation: str) -> set[str]:
    found = {word for kind, words in TAKES.items() for word in words.split() if kind.__name__ in annotation}
    return found | ({"path"} if "PathLike" in annotation else set()) | ({"none"} if "None" in annotation else set())


def test_the_calls_are_found() -> None:
    assert {"NatsServer.__init__", "NatsServer.wait_log", "NatsCluster.reload", "find_binary"} <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_names_the_argument_what_it_takes_and_what_it_got(name: str) -> None:
    call = CALLS[name]
    parameters = inspect.signature(call).parameters
    needed = {
        each.name: VALUES[next(iter(accepted(str(each.annotation))))]
        for each in parameters.values()
        if each.default is each.empty and each.name != "self" and each.kind is not each.VAR_KEYWORD
    }
    for parameter in parameters.values():
        if parameter.name == "self":
            continue
        for kind in VALUES.keys() - accepted(str(parameter.annotation)):
            value = VALUES[kind]
            with pytest.raises(ServerArgumentError) as caught:
                call(*(object(),) * ("self" in parameters), **needed | {parameter.name: value})
            got = "None" if value is None else type(value).__name__
            said = str(caught.value)
            assert re.fullmatch(rf"[\w.]+: {parameter.name} takes .+, not {got}.*", said), said


def test_settings_with_a_key_that_is_no_text_are_refused() -> None:
    with pytest.raises(ServerArgumentError, match="NatsServer: config takes a mapping of text or None, not dict"):
        NatsServer(config={5: 1})  # type: ignore[dict-item]
    with pytest.raises(ServerArgumentError, match="NatsCluster: size takes a whole number, not str: '3'"):
        NatsCluster("3")  # type: ignore[arg-type]
