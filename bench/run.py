"""Resources that the figures of one run share: the server, filled streams, sizes, and objects created on demand."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Self, TypeVar, cast

from bench.rawsocket import connected, wait_until_messages
from bench.rawstream import create_stream, delete_stream, fill
from bench.unavailable import Unavailable
from jetspark.server import NatsServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

T = TypeVar("T")

PAYLOAD = 128
"""Bytes of payload in every message, unless a figure's name says otherwise."""

QUICK_SHARE = 5
"""A quick run sends this many times fewer messages."""

WARM_UP_SHARE = 20
"""The round that is not counted sends this many times fewer messages."""


class Run:
    """One run of the bench: a real server with a file store, and what is made in it.

    Use it as a context manager; everything is stopped and removed at its end.
    """

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.warming_up = False
        self._stack = contextlib.ExitStack()
        self._shared: dict[object, object] = {}
        self._streams: dict[int, str] = {}
        self._remembered: dict[tuple[object, int], int] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._server = self._stack.enter_context(NatsServer())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._server.url

    def count(self, full: int) -> int:
        """How many messages to move: `full` in a full run, fewer in a quick one and in the warm-up."""
        share = QUICK_SHARE if self.quick else 1
        return max(full // (share * (WARM_UP_SHARE if self.warming_up else 1)), 1_000)

    def stream(self, messages: int) -> str:
        """The name of a stream with exactly this many messages, filled once and only read afterwards."""
        if messages not in self._streams:
            name = f"READ{messages}"
            with connected(self.url) as connection:
                create_stream(connection, name, f"read{messages}.>")
                fill(self.url, f"read{messages}.event", messages, PAYLOAD)
                wait_until_messages(connection, name, messages)
            self._streams[messages] = name
        return self._streams[messages]

    @contextlib.contextmanager
    def target(self, messages: int, **config: object) -> Iterator[tuple[str, str]]:
        """A new stream to publish into: its name and the subject; at the end it must hold exactly `messages`."""
        number = next(self._numbers)
        name, subject = f"WRITE{number:06d}", f"write{number:06d}.event"
        with connected(self.url) as connection:
            create_stream(connection, name, f"write{number:06d}.>", **config)
        try:
            yield name, subject
            with connected(self.url) as connection:
                wait_until_messages(connection, name, messages)
        finally:
            with connected(self.url) as connection:
                delete_stream(connection, name)

    def remember(self, measure: Callable[[Run, int], int], count: int) -> int:
        """Return the result of `measure` for this many messages. It is measured once."""
        key = (measure, count)
        if key not in self._remembered:
            self._remembered[key] = measure(self, count)
        return self._remembered[key]

    def shared(self, make: Callable[[Run], AbstractContextManager[T]]) -> T:
        """Return the result of `make`, entered at the first call and left at the end of the run.

        A `make` that raised `Unavailable` is not tried again: it raises the same at every call.
        """
        if make not in self._shared:
            try:
                self._shared[make] = self._stack.enter_context(make(self))
            except Unavailable as reason:
                self._shared[make] = reason
        made = self._shared[make]
        if isinstance(made, Unavailable):
            raise made
        return cast("T", made)
