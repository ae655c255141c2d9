"""Fixtures for fronts and server profiles, for all tests in this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import cast

import pytest
from tests.fronts import PROFILES, FrontName, Ground, Profile, open_ground
from tests.leaks import no_leaks

from jetspark.aio.jetstream import JetStream
from jetspark.server import NatsServer

__all__ = ["no_leaks"]


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[Profile], NatsServer]]:
    """The session's server of a profile. No test stops it."""
    with ExitStack() as stack:
        servers: dict[str, NatsServer] = {}

        def find(profile: Profile) -> NatsServer:
            if profile.name not in servers:
                servers[profile.name] = stack.enter_context(NatsServer(config=profile.config))
            return servers[profile.name]

        yield find


@pytest.fixture
def front(request: pytest.FixtureRequest) -> FrontName:
    """A front, chosen by `tests.layers`. `@pytest.mark.parametrize("front", ["aio"], indirect=True)` selects one."""
    return cast("FrontName", request.param)


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Profile:
    """A server profile, chosen by `tests.layers`, or selected like a front."""
    return PROFILES[request.param]


@pytest.fixture
def server(profile: Profile, server_of: Callable[[Profile], NatsServer]) -> NatsServer:
    """The session's server of the profile."""
    return server_of(profile)


@pytest.fixture
async def ground(front: FrontName, profile: Profile, server: NatsServer, no_leaks: None) -> AsyncIterator[Ground]:
    async with open_ground(front, profile, server) as ground:
        yield ground


@pytest.fixture
def js(ground: Ground) -> JetStream:
    """The context under test."""
    return ground.js
