"""Names and subjects without an answer of the server are refused before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import BadNameError, BadSubjectError
from jetspark.jetstream.api import ConsumerInfoRequest, PullRequest, StreamCreateRequest, StreamInfoRequest
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.names import (
    api_prefix,
    check_consumer_name,
    check_filter_subject,
    check_publish_subject,
    check_stream_name,
    subject_matches,
)


@pytest.mark.parametrize(
    "bad", ["", " ", "a b", "a\tb", "a\rb", "a\nb", "a.b", "a*", ">", "a/b", "a\\b", "a\x00", "x" * 256]
)
def test_invalid_names_are_refused_wherever_a_name_is_given(bad: str) -> None:
    for check in (check_stream_name, check_consumer_name):
        with pytest.raises(BadNameError):
            check(bad)
    for make in (
        lambda: StreamCreateRequest(StreamConfig(name=bad)),
        lambda: StreamInfoRequest(bad),
        lambda: ConsumerInfoRequest("S", bad),
        lambda: PullRequest(bad, "c"),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize("good", ["A", "orders-2024_x", "größe", "x" * 255, "$S", "a:b"])
def test_valid_names_are_returned_unchanged(good: str) -> None:
    assert check_stream_name(good) == good
    assert check_consumer_name(good) == good


@pytest.mark.parametrize("bad", ["", ".", ".a", "a.", "a..b", "a b", "a\r\n", "a\tb", "*", "a.*", "a.>", ">"])
def test_a_message_needs_a_literal_subject(bad: str) -> None:
    with pytest.raises(BadSubjectError):
        check_publish_subject(bad)


@pytest.mark.parametrize("good", ["a", "a.b", "a*b", "a>.b", "$JS.API.INFO", "größe.x"])
def test_literal_subjects_are_returned_unchanged(good: str) -> None:
    assert check_publish_subject(good) == good


@pytest.mark.parametrize("bad", ["", ".a", "a.", "a..b", "a b", ">.a", "a.>.b"])
def test_a_filter_has_its_full_wildcard_at_the_end(bad: str) -> None:
    with pytest.raises(BadSubjectError):
        check_filter_subject(bad)


@pytest.mark.parametrize("good", [">", "*", "a.*", "a.>", "*.b.>", "a"])
def test_valid_filters_are_returned_unchanged(good: str) -> None:
    assert check_filter_subject(good) == good


def test_the_api_prefix_follows_domain_and_prefix() -> None:
    assert api_prefix() == "$JS.API."
    assert api_prefix(domain="hub") == "$JS.hub.API."
    assert api_prefix(prefix="imported.js") == "imported.js."
    assert api_prefix(prefix="imported.js.") == "imported.js."
    request = StreamInfoRequest("S")
    assert request.subject(api_prefix(domain="hub")) == "$JS.hub.API.STREAM.INFO.S"
    assert PullRequest("S", "c").subject(api_prefix(prefix="js")) == "js.CONSUMER.MSG.NEXT.S.c"


@pytest.mark.parametrize(
    "arguments", [{"domain": ""}, {"domain": "a.b"}, {"domain": "*"}, {"prefix": "a.*"}, {"prefix": ""}]
)
def test_an_invalid_prefix_is_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(BadSubjectError):
        api_prefix(**arguments)


def test_domain_and_prefix_exclude_each_other() -> None:
    with pytest.raises(BadSubjectError, match="not both"):
        api_prefix(domain="hub", prefix="js")


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.b", "a.b", True),
        ("*.b", "a.c", False),
        ("a.*.>", "a.b", False),
        ("a.b.c", "a.b", False),
    ],
)
def test_filters_match_like_the_server(pattern: str, subject: str, matches: bool) -> None:
    assert subject_matches(pattern, subject) is matches


tokens = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


@given(tokens, st.data())
def test_a_pattern_built_from_a_subject_matches_it(subject: list[str], data: st.DataObject) -> None:
    pattern = [data.draw(st.sampled_from([token, "*"])) for token in subject]
    assert subject_matches(".".join(pattern), ".".join(subject))
    cut = data.draw(st.integers(0, len(subject) - 1))
    assert subject_matches(".".join([*pattern[:cut], ">"]), ".".join(subject))
