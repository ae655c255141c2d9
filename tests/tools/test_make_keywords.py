"""The keywords of calls are those of the configurations."""

from __future__ import annotations

import pytest
from tools.make_keywords import make, stale

from jetspark.jetstream import ConsumerConfig, ConsumerConfigFields, StreamConfig, StreamConfigFields
from jetspark.wire.connect_keywords import ConnectFields
from jetspark.wire.options import ConnectOptions


def test_the_modules_match_their_sources() -> None:
    assert [path.name for path in stale(make())] == [], "run `make sync`"


@pytest.mark.parametrize(
    ("keywords", "fields"),
    [
        (StreamConfigFields, set(StreamConfig.__struct_fields__) - {"extra"}),
        (ConsumerConfigFields, set(ConsumerConfig.__struct_fields__) - {"extra"}),
        (ConnectFields, set(ConnectOptions.__dataclass_fields__)),
    ],
)
def test_every_field_is_a_keyword(keywords: type, fields: set[str]) -> None:
    assert keywords.__annotations__.keys() == fields
