"""A wrong type of any argument of any public call gives one line: the argument, what it takes, and what it got.

The calls are found by their signatures. They need no server, because the types are checked before anything else.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import pytest
from tests.fronts import Ground

import jetspark
from jetspark import aio, bulk, spark, sync
from jetspark import jetstream as data_types
from jetspark.aio import jetstream as aio_jetstream
from jetspark.errors import ArgumentError, ConfigError
from jetspark.sync import jetstream as sync_jetstream

VALUES: Final[dict[str, object]] = {
    "text": "x y",
    "bytes": b"x",
    "whole": 5,
    "number": 0.5,
    "bool": True,
    "none": None,
    "timedelta": timedelta(seconds=5),
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "list": ["x"],
    "dict": {"x": "y"},
    "function": print,
    "object": object(),
}
TAKES: Final = {
    "str": "text",
    "int": "whole",
    "float": "whole number",
    "bool": "bool",
    "None": "none",
    "timedelta": "timedelta",
    "datetime": "datetime",
    "Payload": "bytes",
    "Sequence": "list",
    "list": "list",
    "Iterable": "list",
    "dict": "dict",
    "Mapping": "dict",
    "HeadersLike": "list dict",
    "RecordBatchInput": "list",
    "Callable": "function",
    "Callback": "function",
    "PushCallback": "function",
    "ErrorHandler": "function",
    "EventHandler": "function",
    "StoredRowsFinder": "function",
    "Secret": "text function",
    **dict.fromkeys(("SparkSession", "StreamingQueryProgress"), "".join(f"{name} " for name in VALUES)),  # Spark's
    "Any": "".join(f"{name} " for name in VALUES),
    "R": "".join(f"{name} " for name in VALUES),
    # Protocols accept anything; the calls check these.
    **dict.fromkeys(("ObjectSource", "HasBucket", "ObjectName"), "".join(f"{name} " for name in VALUES)),
}
"""Words of annotations, and the values that they accept; any other word is a class that accepts none of them."""
BY_SELF: Final = {"Connection.publish", "JetStream.publish_async", "Msg.respond"}
"""Frequent calls, which check their arguments only when they fail: they have tests of their own."""


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public method and function, by its name."""
    for package in (aio, aio_jetstream, sync, sync_jetstream, bulk, data_types, jetspark, spark):
        where = package.__name__.removeprefix("jetspark").lstrip(".") or "jetspark"
        for name in getattr(package, "__all__", None) or dir(package):
            thing = getattr(package, name)
            if inspect.isfunction(thing):
                yield f"{where}:{name}", thing
            elif inspect.isclass(thing) and package in {aio, aio_jetstream, sync, sync_jetstream}:
                for each in dir(thing):
                    member = inspect.getattr_static(thing, each)
                    if not each.startswith("_") and inspect.isfunction(member) and f"{name}.{each}" not in BY_SELF:
                        yield f"{where}:{name}.{each}", member


CALLS: Final = dict(calls())


def accepted(annotation: str) -> set[str]:
    """Names of the values that an annotation accepts."""
    outer = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", annotation)
    return {value for word in re.findall(r"\w+", outer) for value in TAKES.get(word, "").split()} | (
        {"text"} if re.search(r"Policy|Type\b|Compression|Mode\b", outer) and "ReadMethod" not in outer else set()
    )


def arguments(call: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Name and annotation of every argument that can be given by name."""
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            fields = re.search(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if fields is not None:
                keywords = inspect.unwrap(call).__globals__[fields[1]]
                for name, annotation in keywords.__annotations__.items():
                    yield name, annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
        elif parameter.name != "self" and parameter.kind is not parameter.VAR_POSITIONAL:
            yield parameter.name, str(parameter.annotation)


def run(call: Callable[..., Any], *args: object, **kwargs: object) -> None:
    """Make a call; on an object that was not initialised, because nothing may get as far as to use it."""
    first = next(iter(inspect.signature(call).parameters), "")
    target = (object(),) if first == "self" else ()
    result = call(*target, *args, **kwargs)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def test_the_calls_are_found() -> None:
    assert {"aio:connect", "sync:connect", "bulk:scan", "aio:Msg.nak", "sync.jetstream:Consumer.fetch"} <= CALLS.keys()
    assert len(CALLS) > 150


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_names_the_argument_what_it_takes_and_what_it_got(name: str) -> None:
    call = CALLS[name]
    for argument, annotation in arguments(call):
        for kind in VALUES.keys() - accepted(annotation):
            value = VALUES[kind]
            with pytest.raises(ArgumentError) as caught:
                run(call, **{argument: value})
            said = str(caught.value)
            got = "None" if value is None else type(value).__name__
            assert re.fullmatch(rf"[\w.]+: {argument} takes .+, not {got}.*", said), f"{said} ({annotation})"


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_argument_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(TypeError, match="no_such_argument") as caught:
        run(CALLS[name], no_such_argument=1)
    assert "\n" not in str(caught.value)


def test_words_of_other_clients_get_the_right_name() -> None:
    fetch = CALLS["aio.jetstream:Consumer.fetch"]
    for given, meant in (("batch", "max_messages"), ("expires", "timeout"), ("heartbeat", "idle_heartbeat")):
        with pytest.raises(ArgumentError, match=f"fetch has no argument '{given}'; did you mean '{meant}'[?]"):
            run(fetch, **{given: 5})
    with pytest.raises(ArgumentError, match=r"subscribe has no argument 'cb'; did you mean 'callback'[?]"):
        run(CALLS["aio:Connection.subscribe"], "a", cb=print)


def test_an_argument_by_position_that_needs_its_name_says_so() -> None:
    with pytest.raises(
        ArgumentError, match=r"fetch takes 1 argument by position; give the others by name: max_bytes, "
    ):
        run(CALLS["sync.jetstream:Consumer.fetch"], 10, 5)


def test_a_duration_for_seconds_says_so() -> None:
    with pytest.raises(ArgumentError, match=r"nak: delay takes a number, not timedelta: .*; give seconds"):
        run(CALLS["aio:Msg.nak"], timedelta(seconds=5))


def test_a_text_for_a_list_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"scan: subjects takes a list of text, not str: 'a.b'"):
        run(CALLS["bulk:scan"], subjects="a.b")


@pytest.mark.parametrize("connect", [aio.connect, sync.connect, bulk.connect])
def test_no_error_shows_a_secret(connect: Callable[..., Any]) -> None:
    for wrong in ({"password": [b"secret"]}, {"where": {"nats://u:secret@host": 1}}, {"servers": "nats://u:secret@h"},
                  {"token": b"secret"}, {"credentials": {"secret": 1}}):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            run(connect, **wrong)
        assert "secret" not in str(caught.value)


async def test_frequent_calls_name_the_argument_too(ground: Ground) -> None:
    """They check their arguments only when they fail, so this needs a connection."""

    async def respond(**arguments: Any) -> None:
        got = await subscription.next_msg(5)
        await got.respond(**({"payload": b""} | {k: v for k, v in arguments.items() if k != "subject"}))

    subscription = await ground.nc.subscribe(inbox := ground.nc.new_inbox())
    for call in (ground.nc.publish, ground.js.publish_async, respond):
        wrongs = [("payload", "x y"), ("payload", 5), ("payload", None), ("headers", 5), ("headers", {"a": 5})]
        wrongs += [] if call is respond else [("subject", wrong) for wrong in (b"x", 5, None, ["x"])]
        for argument, value in wrongs:
            if call is respond:
                await ground.nc.publish(inbox, b"", reply=inbox)
            with pytest.raises(ArgumentError) as caught:
                await cast("Any", call)(**{"subject": "a", argument: value})
            said = str(caught.value)
            assert argument in said or argument == "subject", said
            assert "\n" not in said
            assert ("None" if value is None else type(value).__name__) in said
    with pytest.raises(ArgumentError, match=r"publish: msg_id takes text or None, not int: 5"):
        await ground.js.publish_async("a", msg_id=5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="next_msg: timeout takes a number or None, not str: 'x'"):
        await subscription.next_msg("x")  # type: ignore[arg-type]
