"""A connection that loses messages, for the tests in this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import Side, side
from tests.fronts import Ground


@pytest.fixture
async def sieve(ground: Ground) -> AsyncIterator[Sieve]:
    async with Sieve(ground.server.port) as proxy:
        yield proxy


@pytest.fixture
async def own(ground: Ground, sieve: Sieve) -> AsyncIterator[Side]:
    """A connection through the sieve."""
    async with side(ground, sieve.url) as own:
        yield own
