"""The status table, row by row, against the rows of the requirements."""

import pytest

from jetspark.errors import NoRespondersError, StatusError
from jetspark.jetstream.status import STATUS_RULES, ConsumeEffect, FetchEffect, StatusSeverity, classify

C, F, K = ConsumeEffect, FetchEffect, StatusSeverity

LINES = [
    ("STA-01", 100, "Idle Heartbeat", K.CONTROL, F.TIMER, C.TIMER, False),
    ("STA-02", 100, "FlowControl Request", K.CONTROL, F.IGNORE, C.IGNORE, False),
    ("STA-03", 400, "Bad Request - heartbeat value too large", K.ERROR, F.END_WITH_ERROR, C.END, False),
    ("STA-03", 400, "", K.ERROR, F.END_WITH_ERROR, C.END, False),
    ("STA-04", 404, "No Messages", K.SILENT, F.END, C.PULL, False),
    ("STA-05", 408, "Request Timeout", K.SILENT, F.END, C.PULL, True),
    ("STA-06", 408, "Requests Pending", K.SILENT, F.END, C.PULL, False),
    ("STA-07", 408, "Interest Expired", K.SILENT, F.END, C.PULL, True),
    ("STA-08", 409, "Message Size Exceeds MaxBytes", K.SILENT, F.END, C.PULL, True),
    ("STA-09", 409, "Batch Completed", K.SILENT, F.END, C.PULL, True),
    ("STA-10", 409, "Exceeded MaxRequestBatch of 10", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-11", 409, "Exceeded MaxRequestExpires of 1s", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-12", 409, "Exceeded MaxRequestMaxBytes of 1000", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-12", 409, "Exceeded MaxWaiting", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-13", 409, "Leadership Change", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-14", 409, "Consumer Deleted", K.ERROR, F.END_WITH_ERROR, C.END, False),
    ("STA-15", 409, "Consumer is push based", K.ERROR, F.END_WITH_ERROR, C.END, False),
    ("STA-16", 409, "Server Shutdown", K.WARNING, F.END_WITH_ERROR, C.WARN_AND_PULL, True),
    ("STA-17", 423, "Nats-Wrong-Pin-Id", K.SILENT, F.END, C.PULL, True),
    ("STA-18", 423, "Nats-Pin-Id mismatch", K.SILENT, F.END, C.PULL, False),
    ("STA-19", 412, "Required Api Level", K.ERROR, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-20", 503, "", K.ERROR, F.END_WITH_ERROR, C.WARN_AND_PULL, False),
    ("STA-21", 499, "Foo", K.ERROR, F.END_WITH_ERROR, C.WARN, False),
    ("STA-21", 409, "something new", K.ERROR, F.END_WITH_ERROR, C.WARN, False),
]
PACED = {"STA-08", "STA-10", "STA-11", "STA-12", "STA-16", "STA-19", "STA-20"}


@pytest.mark.parametrize(("number", "code", "description", "kind", "fetch", "consume", "pending"), LINES)
@pytest.mark.parametrize("spell", [str, str.upper, str.lower, lambda text: f"nats: {text} (see log)"])
def test_every_row_of_the_table_is_correct(
    number: str,
    code: int,
    description: str,
    kind: StatusSeverity,
    fetch: FetchEffect,
    consume: ConsumeEffect,
    pending: bool,
    spell: object,
) -> None:
    assert callable(spell)
    rule = classify(code, spell(description))
    assert (rule.id, rule.severity, rule.fetch, rule.consume) == (number, kind, fetch, consume)
    assert rule.has_pending is pending
    assert rule.delays_next_pull is (number in PACED)
    assert rule.clears_pin is (code == 423)
    assert rule.message_too_large is (number == "STA-08")
    assert rule.ends_all_pulls is (number in {"STA-13", "STA-20"})


def test_every_row_is_reached() -> None:
    assert {classify(line[1], line[2]) for line in LINES} == set(STATUS_RULES)


def test_the_code_takes_precedence_over_the_description() -> None:
    assert classify(400, "Consumer Deleted").id == "STA-03"
    assert classify(499, "Request Timeout").id == "STA-21"


def test_final_statuses_are_distinguished_from_informational_ones() -> None:
    assert not classify(100, "Idle Heartbeat").ends_pull
    assert not classify(499, "Foo").ends_pull
    assert classify(408, "Request Timeout").ends_pull
    assert classify(409, "Consumer Deleted").ends_pull


def test_the_error_of_a_status_says_what_happened_and_where() -> None:
    error = classify(409, "Consumer Deleted").make_error(409, "Consumer Deleted", where="pull from S.c")
    assert isinstance(error, StatusError)
    assert isinstance(error, LookupError)
    assert (error.code, error.description) == (409, "Consumer Deleted")
    assert str(error) == "pull from S.c: status 409 Consumer Deleted"
    assert isinstance(classify(503).make_error(503), NoRespondersError)
    assert str(classify(503).make_error(503)).startswith("status 503; no such consumer: ")
