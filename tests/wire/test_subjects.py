"""Which literal subjects a filter with wildcards matches."""

from __future__ import annotations

import pytest

from jetspark.wire.subjects import subject_matches


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
