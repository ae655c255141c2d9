"""Lists longer than a page, on the real server and from servers that count wrongly."""

import json
from collections.abc import Callable, Generator
from typing import TypeVar

import pytest
from tests.jetstream.raw import RawClient

from jetspark.errors import InvalidReplyError
from jetspark.jetstream import StorageType, StreamConfig, StreamInfo
from jetspark.jetstream.api import (
    Page,
    PagedRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoPage,
    StreamListRequest,
    StreamNamesRequest,
    StreamSubjectsRequest,
    all_subjects,
    collect,
    next_request,
    pages,
)

Q = TypeVar("Q")
A = TypeVar("A")
E = TypeVar("E")

MANY = 300
"""More entries than fit a page."""


def drive(generator: Generator[Q, A, E], answer: Callable[[Q], A]) -> E:
    """Answer each yielded request and return the result of the generator."""
    try:
        request = next(generator)
        while True:
            request = generator.send(answer(request))
    except StopIteration as end:
        result: E = end.value
        return result


def test_lists_are_collected_page_by_page_on_the_real_server(client: RawClient) -> None:
    try:
        for number in range(MANY):
            client.request(StreamCreateRequest(StreamConfig(name=f"P{number:03d}", storage=StorageType.MEMORY)))
        asked: list[int] = []

        def answer(request: PagedRequest[StreamInfo]) -> Page[StreamInfo]:
            asked.append(request.offset)
            return client.request(request)

        infos = drive(collect(StreamListRequest()), answer)
        assert [info.config.name for info in infos] == [f"P{number:03d}" for number in range(MANY)]
        assert asked == [0, 256]
        assert len(drive(collect(StreamNamesRequest()), client.request)) == MANY
        assert drive(collect(StreamNamesRequest("P007")), client.request) == ["P007"]
        assert client.request(StreamListRequest(offset=299)).items[0].config.name == "P299"
    finally:
        for name in drive(collect(StreamNamesRequest()), client.request):
            client.request(StreamDeleteRequest(name))


def page(items: list[str], total: int, offset: int, limit: int) -> Page[str]:
    return Page(items, total, offset, limit)


def test_the_next_page_starts_at_the_end_of_the_servers_window() -> None:
    request = StreamNamesRequest("a.>")
    following = next_request(request, page(["a"], total=5, offset=0, limit=2))  # one of two is missing
    assert following == StreamNamesRequest("a.>", offset=2)
    assert next_request(request, page(["a", "b"], total=2, offset=0, limit=1024)) is None
    assert next_request(request, page([], total=0, offset=0, limit=1024)) is None


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([page(["a"], 9, 0, 0), page(["b"], 9, 1, 0), page([], 9, 2, 0)], "is empty"),
        ([page(["a"], 9, 0, -1), page([], 9, 1, -1)], "is empty"),
        ([page([], 9, 0, 1), page([], 9, 1, 1)], "is empty"),
        ([page(["a"], 9, 0, 1), page(["a"], 9, 1, 1), page(["a"], 9, 2, 1)], "repeats the one before"),
        ([page(["a"], 2**62, 0, 1), page(["b"], 2**62, 0, 1)], "begins at entry 0, not at 1"),
        ([page(["a"], 9, 0, 1), page(["b"], 9, 2**62, 1)], f"begins at entry {2**62}, not at 1"),
        ([page(["a"], 9, 0, 1), page(["b"], 9, -5, 1)], "begins at entry -5, not at 1"),
    ],
)
def test_a_page_that_brings_the_list_no_further_is_an_error(answers: list[Page[str]], problem: str) -> None:
    replies = iter(answers)
    with pytest.raises(InvalidReplyError, match=rf"^STREAM\.NAMES: the page {problem}, .* entries$"):
        drive(collect(StreamNamesRequest()), lambda _: next(replies))


def test_a_list_that_becomes_shorter_meanwhile_ends() -> None:
    assert next_request(StreamNamesRequest(offset=5), page([], 3, 3, 2)) is None
    assert next_request(StreamNamesRequest(offset=5), page([], 5, 5, 2)) is None


def test_pages_can_be_requested_one_by_one() -> None:
    generator = pages(StreamNamesRequest())
    assert next(generator) == StreamNamesRequest()
    assert generator.send(page(["a", "b"], 3, 0, 2)) == StreamNamesRequest(offset=2)
    with pytest.raises(StopIteration):
        generator.send(page(["c"], 3, 2, 2))


def test_subjects_of_all_pages_are_merged() -> None:
    def answer(request: StreamSubjectsRequest) -> StreamInfoPage:
        names = [f"s.{number}" for number in range(5)][request.offset : request.offset + 2]
        fields = {"config": {"name": "S"}, "created": "2024-01-01T00:00:00Z", "total": 5, "limit": 2}
        state = {"subjects": dict.fromkeys(names, 1) or None}
        return request.read(json.dumps({**fields, "offset": request.offset, "state": state}).encode())

    info = drive(all_subjects(StreamSubjectsRequest("S")), answer)
    assert info.state.subjects == {f"s.{number}": 1 for number in range(5)}


def test_subjects_are_listed_on_the_real_server(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="SUBJ", subjects=["subj.>"])))
    try:
        for number in range(4):
            client.ask(f"subj.{number % 2}")
        found = drive(all_subjects(StreamSubjectsRequest("SUBJ")), client.request)
        assert found.state.subjects == {"subj.0": 2, "subj.1": 2}
        assert client.request(StreamSubjectsRequest("SUBJ")).total == 2
        assert drive(all_subjects(StreamSubjectsRequest("SUBJ", "none")), client.request).state.subjects == {}
    finally:
        client.request(StreamDeleteRequest("SUBJ"))


@pytest.mark.parametrize("names", [[], ["s.0", "s.1"]])
def test_a_page_without_new_subjects_is_an_error(names: list[str]) -> None:
    def answer(request: StreamSubjectsRequest) -> StreamInfoPage:
        fields = {"config": {"name": "S"}, "created": "2024-01-01T00:00:00Z", "total": 2**62, "limit": 2}
        state = {"subjects": dict.fromkeys(names, 1) or None}
        return request.read(json.dumps({**fields, "offset": request.offset, "state": state}).encode())

    with pytest.raises(InvalidReplyError, match="no new subjects"):
        drive(all_subjects(StreamSubjectsRequest("S")), answer)
