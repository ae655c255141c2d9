"""A file store that the server cannot create, like after the deletion of the last stream of an account."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from jetspark.server import NatsServer

P = ParamSpec("P")
R = TypeVar("R")


def unmakeable_store(server: NatsServer, stream: str) -> Path:
    """Put a file in the place of the directory of the stream. The account must have another stream with a file store.

    The server removes the file when it fails because of it: `touch` restores it.
    """
    obstacle = server.store_dir / "jetstream" / "$G" / "streams" / stream
    obstacle.touch()
    return obstacle


def before(call: Callable[P, R], action: Callable[[], object]) -> Callable[P, R]:
    """Return the same call with another call before it."""

    @wraps(call)
    def called(*arguments: P.args, **keywords: P.kwargs) -> R:
        action()
        return call(*arguments, **keywords)

    return called
