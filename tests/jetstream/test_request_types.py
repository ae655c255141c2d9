"""A wrong type of any argument of a request, or of a function for requests, gives one line that names it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from jetspark.errors import ArgumentError, ConfigError, Error
from jetspark.jetstream import api
from jetspark.jetstream.api import (
    ConsumerInfoRequest,
    MessageGetRequest,
    PullRequest,
    Request,
    StreamCreateRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
)
from jetspark.wire.argument_types import field_kinds

VALUES: Final[tuple[object, ...]] = (
    "x", b"x", 5, 0.5, True, None, timedelta(seconds=5), datetime(2026, 1, 1, tzinfo=UTC), ["x"], {"x": "y"}, print,
    object(),
)  # fmt: skip
REQUESTS: Final = [
    each
    for name in api.__all__
    if inspect.isclass(each := getattr(api, name))
    and dataclasses.is_dataclass(each)
    and (issubclass(each, Request) or each is PullRequest)
]


def fields(request: Any) -> Iterator[str]:
    return (field.name for field in dataclasses.fields(request) if field.init)


def refused(request: Any, name: str, value: object) -> str | None:
    """Return the complaint about a value for one argument; None if its type is accepted."""
    try:
        request(**{name: value})
    except ArgumentError as error:
        return str(error)
    except (ConfigError, Error, TypeError):  # another value is wrong or missing; the type is right
        return None
    return None


def test_the_requests_are_found() -> None:
    assert {StreamInfoRequest, StreamCreateRequest, PullRequest} <= set(REQUESTS)
    assert len(REQUESTS) > 15


@pytest.mark.parametrize("request_type", REQUESTS)
def test_a_wrong_type_names_the_field_what_it_takes_and_what_it_got(request_type: Any) -> None:
    for name in fields(request_type):
        kind = field_kinds(request_type)[name]
        complaints = [refused(request_type, name, value) for value in VALUES if not kind.fits(value)]
        assert complaints, f"{name} takes anything"
        for said in complaints:
            assert said is not None, name
            assert re.fullmatch(rf"{request_type.__name__}: {name} takes .+, not .+", said), said


def test_arguments_by_position_are_checked_too() -> None:
    with pytest.raises(ArgumentError, match="ConsumerInfoRequest: consumer takes text, not int: 5"):
        ConsumerInfoRequest("S", 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="PullRequest: expires takes a timedelta or None, not int: 5"):
        PullRequest("S", "C", 1, 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="MessageGetRequest has no argument 'seq'; did you mean 'sequence'"):
        MessageGetRequest("S", seq=5)  # type: ignore[call-arg]


def test_the_methods_of_a_request_check_their_arguments() -> None:
    request = StreamInfoRequest("S")
    with pytest.raises(ArgumentError, match="subject: prefix takes text, not None"):
        request.subject(None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="read: payload takes bytes, not str"):
        request.read("{}")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="subject: prefix takes text, not int"):
        PullRequest("S", "C").subject(5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="collect: request takes a PagedRequest, not int: 5"):
        api.collect(5)  # type: ignore[arg-type]


def test_requests_can_be_copied_compared_and_pickled() -> None:
    for request in (StreamInfoRequest("S"), PullRequest("S", "C", 5), StreamPurgeRequest("S", sequence=5)):
        assert pickle.loads(pickle.dumps(request)) == request == copy.copy(request)
        assert dataclasses.replace(request, stream="T").stream == "T"
