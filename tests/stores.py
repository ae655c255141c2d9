"""A stream's store that the server cannot make, as while it clears up behind the last stream of an account."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from jetspark.server import NatsServer

P = ParamSpec("P")
R = TypeVar("R")


def unmakeable_store(server: NatsServer, stream: str) -> Path:
    """Put a file in the place of the stream's directory; the account must have another stream in files.

    The server removes the file when it fails for it: `touch` puts it back.
    """
    obstacle = server.store_dir / "jetstream" / "$G" / "streams" / stream
    obstacle.touch()
    return obstacle


def before(call: Callable[P, R], action: Callable[[], object]) -> Callable[P, R]:
    """The same call with something done first."""

    @wraps(call)
    def called(*arguments: P.args, **keywords: P.kwargs) -> R:
        action()
        return call(*arguments, **keywords)

    return called
