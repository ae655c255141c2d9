"""The subscribe workflow of ADR-15, in its order: options, stream, consumer, SUB, CREATE; and the end of it.

Each generator yields what to do next. A `Request` is answered by sending in what it reads, or by throwing in the error
that it raised. The other steps are done by the front, which owns the subscription; they cannot be refused. Whoever
stops driving a generator half way ends the subscription that it asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from jetspark.flow.consumer_series import ConsumerSeries
from jetspark.flow.subscribing.binding import check_existing
from jetspark.flow.subscribing.options import SubscribeOptions, Wanted, check_options
from jetspark.flow.subscribing.ordered import ordered_push_config
from jetspark.jetstream.api.base import Request
from jetspark.jetstream.api.consumers import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
)
from jetspark.jetstream.api.paging import Page
from jetspark.jetstream.api.streams import StreamNamesRequest
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.errors import (
    ConfigError,
    ConsumerExistsError,
    ConsumerNotFoundError,
    Error,
    JetStreamNotEnabledError,
    NoMatchingStreamError,
    NoRespondersError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from jetspark.jetstream.info import ConsumerInfo

__all__ = [
    "ACK_PATIENCE",
    "CREATOR",
    "Binding",
    "Drain",
    "Forget",
    "Step",
    "Subscribe",
    "Unsubscribe",
    "drain",
    "renew",
    "subscribe",
    "unsubscribe",
]

CREATOR: Final = "jetspark.creator"
"""Key in the metadata of a named consumer under which its creator leaves a private token (CRE-08)."""

ACK_PATIENCE: Final = 0.25
"""Seconds that a drain waits, when the last message was taken, for who took it to come back: its ack goes out first."""

_INACTIVE: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send SUB."""

    subject: str
    """Deliver subject."""
    queue: str
    """Queue group, empty for none."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Send UNSUB, and drop what came."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Send UNSUB, and wait until everything that came has been handled."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Send a request, and do not wait for what becomes of it."""

    request: Request[Any]
    """The request."""


Step: TypeAlias = Request[Any] | Subscribe | Unsubscribe | Drain | Forget


@dataclass(frozen=True, slots=True)
class Binding:
    """A subscription and its consumer."""

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    created: bool
    """The consumer was made by this subscription, which deletes it in the end."""
    pending: int
    """Messages that waited when it began (CRE-09)."""
    config: ConsumerConfig
    """As the server has it; as the caller gave it where the server was not asked."""
    ordered: ConsumerSeries | None = None
    """The consumers to come, of an ordered subscription."""

    @property
    def deliver_subject(self) -> str:
        """What the subscription listens to; empty for a pull subscription."""
        return self.config.deliver_subject or ""

    @property
    def deliver_group(self) -> str:
        """Queue group, empty for none."""
        return self.config.deliver_group or ""

    @property
    def acknowledged(self) -> bool:
        """Whether the messages want an acknowledgement. The server takes an unset policy for none."""
        return self.config.ack_policy not in {None, AckPolicy.NONE}


def subscribe(
    options: SubscribeOptions, new_inbox: Callable[[], str], new_name: Callable[[], str]
) -> Generator[Step, Any, Binding]:
    """Bind a subscription to a consumer that exists, or to one that is made for it.

    Parameters
    ----------
    options
        What the caller gave.
    new_inbox
        Makes a fresh deliver subject.
    new_name
        Makes a fresh word: names of consumers that have none, and private tokens.

    Raises
    ------
    ConfigError, BadNameError, BadSubjectError
        The options make no sense; nothing was yielded.
    NoMatchingStreamError
        None or several streams store the subject.
    BindingError
        The consumer exists and is another one than that.
    APIError, RequestTimeoutError, JetStreamNotEnabledError
        As the server answered.
    """
    wanted = check_options(options)
    stream = wanted.stream or (yield from _find_stream(wanted.subject))
    if wanted.name is not None and not wanted.skip_lookup:
        info = yield from _look_up(wanted, stream, wanted.name)
        if info is not None:
            check_existing(wanted, info)
            if not wanted.pull:
                yield Subscribe(info.config.deliver_subject or "", wanted.queue)
            return _bound(info)
    if wanted.bind:
        return (yield from _bind_unseen(wanted, stream))
    return (yield from _create(wanted, stream, new_inbox, new_name))


def renew(binding: Binding, new_inbox: Callable[[], str]) -> Generator[Step, Any, Binding]:
    """Give an ordered subscription its next consumer, behind the last good message (ORD-03).

    The old inbox goes first, so that nothing that is still under way to it can be taken for the new one's.
    """
    ordered = binding.ordered
    assert ordered is not None, "only ordered subscriptions are renewed"
    yield Unsubscribe()
    yield Forget(ConsumerDeleteRequest(binding.stream, ordered.name))
    deliver = new_inbox()
    config = ordered.next_config(deliver)
    yield Subscribe(deliver, "")
    try:
        info: ConsumerInfo = yield ConsumerCreateRequest(binding.stream, config, ConsumerAction.CREATE)
    except Error:
        yield Unsubscribe()
        raise
    ordered.created(info)
    return _bound(info, created=True, ordered=ordered)


def unsubscribe(binding: Binding) -> Generator[Step, Any, None]:
    """End a subscription at once; a consumer that it made goes too, and if that fails the caller hears of it."""
    yield Unsubscribe()
    yield from _delete(binding)


def drain(binding: Binding) -> Generator[Step, Any, Error | None]:
    """End a subscription when its messages are handled: only then may the consumer go, or their acks are lost.

    Returns why the consumer could not be deleted, which is for the error callback, not for the caller (UNS-04).
    """
    yield Drain()
    try:
        yield from _delete(binding)
    except Error as error:
        return error
    return None


def _delete(binding: Binding) -> Generator[Step, Any, None]:
    """Delete what was made. An ordered subscription may just be between two consumers: then there is none."""
    if binding.created:
        name = binding.ordered.name if binding.ordered is not None else binding.consumer
        try:
            yield ConsumerDeleteRequest(binding.stream, name)
        except ConsumerNotFoundError:
            if binding.ordered is None:
                raise


def _find_stream(subject: str) -> Generator[Step, Any, str]:
    """The one stream that stores the subject (ADR-15, Stream name)."""
    page: Page[str] = yield StreamNamesRequest(subject_filter=subject)
    match page.items:
        case [name]:
            return name
        case []:
            raise NoMatchingStreamError(f"no stream matches subject {subject!r}; create one", subject=subject)
        case names:
            raise NoMatchingStreamError(
                f"no stream matches subject {subject!r} alone, but {', '.join(names)}; name the stream",
                subject=subject,
                streams=tuple(names),
            )


def _look_up(wanted: Wanted, stream: str, name: str) -> Generator[Step, Any, ConsumerInfo | None]:
    """The consumer of that name, None to go on without (ADR-15, Consumer name)."""
    try:
        info: ConsumerInfo = yield ConsumerInfoRequest(stream, name)
    except ConsumerNotFoundError:
        if wanted.bind:
            raise
        return None
    except (NoRespondersError, JetStreamNotEnabledError, RequestTimeoutError, PermissionsViolationError) as error:
        # Pulling may be allowed, by an import or by permissions, where asking is not (BND-03).
        if wanted.bind and wanted.pull and not getattr(error, "err_code", 0):
            return None
        raise
    return info


def _bind_unseen(wanted: Wanted, stream: str) -> Generator[Step, Any, Binding]:
    """Bind to a consumer that nobody told us about: what the caller says of it has to do."""
    assert wanted.name is not None, "binding needs a name"
    if not wanted.pull:
        if not wanted.config.deliver_subject:
            raise ConfigError(
                f"without a look-up, the configuration of {wanted.name!r} has to give its deliver_subject"
            )
        yield Subscribe(wanted.config.deliver_subject, wanted.queue)
    config = wanted.config
    if config.ack_policy is None:
        config = config.replace(ack_policy=AckPolicy.EXPLICIT)
    return Binding(stream, wanted.name, created=False, pending=0, config=config)


def _create(
    wanted: Wanted, stream: str, new_inbox: Callable[[], str], new_name: Callable[[], str]
) -> Generator[Step, Any, Binding]:
    """Make the consumer. For push, SUB comes first: by it the server tells a used durable from a free one."""
    ordered = None
    if wanted.ordered:
        ordered = ConsumerSeries(ordered_push_config(wanted.config, wanted.subject), new_name())
    deliver = "" if wanted.pull else wanted.config.deliver_subject or new_inbox()
    config = ordered.next_config(deliver) if ordered else _new_config(wanted, deliver, new_name)
    if deliver:
        yield Subscribe(deliver, wanted.queue)
    try:
        try:
            info: ConsumerInfo = yield ConsumerCreateRequest(stream, config, ConsumerAction.CREATE)
        except ConsumerExistsError as lost:
            return (yield from _join_winner(wanted, stream, lost))
    except Error:
        if deliver:
            yield Unsubscribe()
        raise
    if ordered is not None:
        ordered.created(info)
    return _bound(info, created=True, ordered=ordered)


def _join_winner(wanted: Wanted, stream: str, lost: ConsumerExistsError) -> Generator[Step, Any, Binding]:
    """Somebody made the consumer between our look-up and our creation: bind to theirs (CRE-06)."""
    assert wanted.name is not None, "only a name can be taken"
    info: ConsumerInfo = yield ConsumerInfoRequest(stream, wanted.name)
    check_existing(wanted, info)
    if not wanted.pull:
        if not wanted.queue:
            raise lost
        yield Unsubscribe()
        yield Subscribe(info.config.deliver_subject or "", wanted.queue)
    return _bound(info)


def _new_config(wanted: Wanted, deliver: str, new_name: Callable[[], str]) -> ConsumerConfig:
    """What the caller set, and ADR-15's defaults.

    A consumer that others know by its name carries a private token. A second creator with the same wishes would else be
    told that it made the consumer too, and both would delete it. One of a name that we make up needs none; it goes by
    itself when nobody uses it.
    """
    given = wanted.config
    config = given.replace(
        filter_subject=None if given.filter_subjects else wanted.subject or None,
        deliver_subject=deliver or None,
        deliver_group=wanted.queue or None,
        ack_policy=given.ack_policy or AckPolicy.EXPLICIT,
        deliver_policy=given.deliver_policy or DeliverPolicy.ALL,
        replay_policy=given.replay_policy or ReplayPolicy.INSTANT,
    )
    if wanted.name is None:
        return config.replace(name=new_name(), inactive_threshold=given.inactive_threshold or _INACTIVE)
    name = None if config.durable_name else wanted.name
    return config.replace(name=name, metadata={**(given.metadata or {}), CREATOR: new_name()})


def _bound(info: ConsumerInfo, *, created: bool = False, ordered: ConsumerSeries | None = None) -> Binding:
    return Binding(
        info.stream_name,
        info.name,
        created=created,
        pending=info.num_pending + (info.delivered.consumer_seq if created else 0),
        config=info.config,
        ordered=ordered,
    )
