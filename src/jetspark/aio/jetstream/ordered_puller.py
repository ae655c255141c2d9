"""Drives an ordered consume on the event loop: one consumer after the other, with a `Puller` each (ADR-17)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jetspark.aio.jetstream.puller import Puller
from jetspark.aio.message import Msg
from jetspark.flow.ordered import (
    TRY_TIMEOUT,
    AskLeader,
    Create,
    Delete,
    LookUp,
    OrderedCursor,
    OrderedEnd,
    OrderedFlow,
    Read,
    Warn,
)
from jetspark.flow.pull import PullOptions
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    MessageGetRequest,
)
from jetspark.jetstream.errors import Error, MessageNotFoundError, NotFoundError, PermissionsViolationError
from jetspark.jetstream.header_names import LAST_CONSUMER
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.messages import Message

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["OrderedPuller"]


class OrderedPuller:
    """A source of messages like `Puller`, for a sequence of consumers.

    Parameters
    ----------
    js, stream
        Context, and name of the stream.
    options
        Options of the consume.
    cursor
        The start. It moves with the messages that arrive; at the end it moves back to the last message that was taken.
    flow
        Decides when a consumer is created.
    on_news, on_warning
        As for `Puller`.
    on_info
        Called with the info of each new consumer; with None between two consumers.
    on_end
        Called at the end.
    """

    def __init__(
        self,
        js: JetStreamAPI,
        stream: str,
        options: PullOptions,
        cursor: OrderedCursor,
        flow: OrderedFlow,
        on_news: Callable[[], None],
        on_warning: Callable[[Error], None],
        *,
        on_info: Callable[[ConsumerInfo | None], None],
        on_end: Callable[[], None],
    ) -> None:
        self.ready: deque[Msg] = deque()
        self.taken_size = 0
        self.ended = False
        self.error: Error | None = None
        self._js = js
        self._stream = stream
        self._options = options
        self._cursor = cursor
        self._flow = flow
        self._on_news = on_news
        self._on_warning = on_warning
        self._on_info = on_info
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._puller: Puller | None = None
        self._counted = 0  # messages of earlier consumers
        self._draining = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def until_pull(self) -> int:
        """How many messages may be taken before `report` must be called."""
        return 1 if self._puller is None else self._puller.until_pull

    @property
    def counts_bytes(self) -> bool:
        """Whether the reader must update `taken_size`."""
        return self._options.max_bytes is not None

    @property
    def handed(self) -> int:
        """Messages taken from `ready` so far."""
        return self._counted + (0 if self._puller is None else self._puller.counted) - len(self.ready)

    def start(self) -> None:
        """Create the first consumer and pull."""
        client = self._js.connection._client
        client.check_open()
        client.dependents.add(self)
        client.watchers.add(self)
        self._flow.start(online=client.outbound.online)
        self._act()

    def report(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""
        if self._puller is not None:
            self._puller.taken_size = self.taken_size
            self._puller.report()

    def stop(self, error: Error | None = None) -> None:
        """End now. The cursor moves back to the last message that was taken."""
        with suppress(IndexError):  # another thread may take messages
            first = self.ready[0]
            if self._cursor.last_sequence is not None:
                self._cursor.last_sequence = first.metadata.stream_sequence - 1
        self._flow.stop(error)
        self._act()

    def drain(self) -> None:
        """Create no more consumers, pull no more, and end when the messages that were sent have come."""
        self._draining = True
        if self._puller is not None and not self._puller.ended:
            self._puller.drain()
        else:
            self._flow.stop()
            self._act()

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:  # noqa: ARG002 (the reason does not matter here)
        """Handle the end of the session. Missing permissions are reported by the requests and pulls themselves."""
        if subject is not None:
            return
        self._drop()
        if self._draining or self._js.connection._client.closed:
            self._flow.stop()
        else:
            self._flow.disconnected()
        self._act()

    def session_restored(self) -> None:
        """Handle that another session is open."""
        self._flow.reconnected()
        self._act()

    # -- called by the puller ------------------------------------------------------------------------------------

    def _news(self, puller: Puller) -> None:
        if puller is self._puller and puller.ended:
            if puller.error is not None:
                self._flow.problem(puller.error, final=True)
            else:
                self._flow.stop()  # drained
        self._act()
        if not self.ended:
            self._on_news()

    def _warned(self, puller: Puller, error: Error) -> None:
        if puller is self._puller:
            self._flow.problem(error, final=False)
            self._act()

    def _idle(self, puller: Puller, message: Message) -> None:
        if puller is self._puller:
            last = message.headers.get(LAST_CONSUMER)
            self._flow.heartbeat(int(last) if last is not None and last.isdigit() else None)
            self._act()

    # -- actions -------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        for action in self._flow.take():
            match action:
                case Create(config):
                    self._drop()
                    self._on_info(None)
                    request = ConsumerCreateRequest(self._stream, config, ConsumerAction.CREATE)
                    self._spawn(self._create(request, self._cursor.name))
                case Delete(name):
                    self._spawn(self._delete(name))
                case Read(name):
                    self._read(name)
                case LookUp(name):
                    self._spawn(self._look_up(name))
                case AskLeader(subjects):
                    self._spawn(self._ask_leader(subjects))
                case Warn(error):
                    self._on_warning(error)
                case OrderedEnd(error):
                    self._finish(error)
        self._set_timer(self._flow.retry_at)

    def _read(self, name: str) -> None:
        puller = Puller(
            self._js,
            self._stream,
            name,
            self._options,
            acks=False,
            ready=self.ready,
            check=lambda messages: self._flow.accept(messages) if puller is self._puller else 0,
            on_news=lambda: self._news(puller),
            on_warning=lambda error: self._warned(puller, error),
            on_heartbeat=lambda message: self._idle(puller, message),
        )
        self._counted -= puller.counted  # a new puller counts the messages in `ready`
        puller.taken_size = self.taken_size
        self._puller = puller
        puller.start()

    def _drop(self) -> None:
        """Stop listening to the present consumer; later messages of it are ignored (ORD-09)."""
        puller, self._puller = self._puller, None
        if puller is not None:
            puller.stop()
            self._counted += puller.counted

    async def _create(self, request: ConsumerCreateRequest, name: str) -> None:
        try:
            info = await self._js.request(request, TRY_TIMEOUT)
        except Error as error:
            self._flow.failed(self._loop.time(), name, error)
        else:
            self._on_info(info)
            self._flow.created(info)
        self._act()

    async def _delete(self, name: str) -> None:
        try:
            await self._js.request(ConsumerDeleteRequest(self._stream, name), TRY_TIMEOUT)
        except (NotFoundError, PermissionsViolationError):
            pass  # a user without the permission gets an error each time: one try for each consumer is enough
        except Error:
            self._flow.undeleted(name)  # the server deletes an unused consumer by itself
            return
        self._flow.deleted(name)

    async def _look_up(self, name: str) -> None:
        with suppress(Error):  # the next heartbeat asks again
            self._flow.looked_up(await self._js.request(ConsumerInfoRequest(self._stream, name)))
        self._act()

    async def _ask_leader(self, subjects: tuple[str, ...]) -> None:
        try:
            last = [await self._last_of(subject) for subject in subjects]
        except Error as error:
            self._flow.leader_failed(error)
        else:
            self._flow.leader_has(max(last))
        self._act()

    async def _last_of(self, subject: str) -> int:
        request = MessageGetRequest(self._stream, last_by_subj=subject, no_headers=True)
        try:
            return (await self._js.request(request)).sequence
        except MessageNotFoundError:
            return 0

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name=f"jetspark ordered consumer of {self._stream}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._js.connection._adopt(task)

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None and (when is None or self._timer.when() != when):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._flow.tick(self._loop.time())
        self._act()

    def _finish(self, error: Error | None) -> None:
        self._drop()
        self.error = error
        self.ended = True  # set after `error`, because other threads read that next
        self._set_timer(None)
        client = self._js.connection._client
        client.dependents.discard(self)
        client.watchers.discard(self)
        self._on_end()
        self._on_news()
