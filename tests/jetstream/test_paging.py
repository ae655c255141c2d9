"""Lists longer than a page, on the real server and from servers that count wrongly."""

import json
from collections.abc import Callable, Generator
from typing import TypeVar

import pytest
from tests.jetstream.raw import RawClient

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


@pytest.mark.parametrize("limit", [0, -1])
def test_a_list_ends_even_if_the_server_counts_wrongly(limit: int) -> None:
    answers = iter([page(["a"], 9, 0, limit), page(["b"], 9, 1, limit), page([], 9, 2, limit)])
    assert drive(collect(StreamNamesRequest()), lambda _: next(answers)) == ["a", "b"]
    assert next_request(StreamNamesRequest(offset=5), page(["a"], 9, 0, 2)) is None  # it ignores the offset


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
