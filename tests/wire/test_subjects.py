"""Which literal subjects a filter with wildcards matches, and which received subjects may be answered."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetspark.errors import BadSubjectError
from jetspark.wire.subjects import check_reply_subject, subject_matches
from jetspark.wire.vector.reply_subjects import check_reply_subjects


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("orders.eu", "orders.eu", True),
        ("orders.eu", "orders.us", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.eu.7", False),
        ("orders.*.7", "orders.eu.7", True),
        ("orders.*.7", "orders.eu.8", False),
        ("orders.>", "orders.eu.7", True),
        ("orders.>", "orders", False),
        ("*.>", "orders.eu", True),
        (">", "orders", True),
        ("orders", "orders.eu", False),
    ],
)
def test_a_filter_matches_token_by_token(pattern: str, subject: str, matches: bool) -> None:
    assert subject_matches(pattern, subject) is matches


ACK = b"$JS.ACK.ORDERS.worker.1.7.7.1700000000000000000.0"

ANSWERED = [
    ACK,
    b"$JS.ACK.domain.acchash.ORDERS.worker.1.7.7.1700000000000000000.0.token",
    b"$JS.ACK.API.worker.1.7.7.1700000000000000000.0",  # a stream may be called API
    b"$JS.FC.ORDERS.pusher.Xy7",
    b"$JS.FC.domain.acchash.ORDERS.pusher.Xy7",
    b"$JS.SNAPSHOT.ACK.ORDERS.Xy7",
    b"_INBOX.Xy7.1",
    b"_R_.Xy7.1",
    b"acme.FC.pusher.1",
    b"$X.FC.1",
    b"a*b.c>",
    "größe.1".encode(),
]
REFUSED = [
    b"",
    b".",
    b"a..b",
    b".a",
    b"a.",
    ACK + b".",
    b"$JS.ACK..worker.1.7.7.1.0",
    *(b"$JS.ACK.ORDERS%bworker.1.7.7.1.0" % (bytes([code]),) for code in [*range(33), 127]),
    b"$JS.FC.S.c.1 6\r\n$JS.API.STREAM.DELETE.S",
    b"a.*",
    b"a.>",
    b"*",
    b">",
    b"$JS.ACK.ORDERS.*.1.7.7.1.0",
    b"a.\xff\xfe",
    b"a.\xed\xa0\x80",
    b"$JS",
    b"$JS.API.STREAM.DELETE.S",
    b"$JS.hub.API.STREAM.DELETE.S",
    b"$JS.ACK.API.STREAM.DELETE.S",  # a domain may be called ACK
    b"$JS.FC.API.CONSUMER.DELETE.S.c",
    b"$JS.SNAPSHOT.API.INFO",
    b"$JS.EVENT.ADVISORY.API",
    b"$SYS",
    b"$SYS.REQ.SERVER.PING",
    b"$JSC.R.1",
    b"$NRG.V.1",
    b"acme.JS.API.STREAM.DELETE.S",
]
PREFIXES = (b"$JS.API.", b"acme.JS.API.")


@pytest.mark.parametrize("subject", ANSWERED, ids=repr)
def test_a_received_subject_of_any_legal_form_is_answered(subject: bytes) -> None:
    assert check_reply_subject(subject, PREFIXES) == subject


@pytest.mark.parametrize("subject", REFUSED, ids=repr)
def test_a_received_subject_that_is_not_legal_or_is_an_api_is_refused(subject: bytes) -> None:
    with pytest.raises(BadSubjectError):
        check_reply_subject(subject, PREFIXES)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("subject", [*ANSWERED, *REFUSED], ids=repr)
def test_many_received_subjects_are_checked_as_one(subject: bytes, place: int) -> None:
    subjects = [ACK, ACK]
    subjects.insert(place, subject)
    column = pa.array([b"$SYS.x", *subjects, b"$SYS.x"], pa.binary()).slice(1, 3)
    try:
        check_reply_subject(subject)
    except BadSubjectError:
        with pytest.raises(BadSubjectError):
            check_reply_subjects(column)
    else:
        check_reply_subjects(column)


def test_the_error_of_a_long_received_subject_is_short() -> None:
    with pytest.raises(BadSubjectError) as refused:
        check_reply_subject(b"$SYS." + b"x" * 100_000)
    assert len(str(refused.value)) < 400
