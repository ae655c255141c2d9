"""The subscribe workflow of ADR-15, in its order: options, stream, consumer, SUB, CREATE; and its end.

Each generator yields the next step. For a `Request`, the front sends in the result or throws in the error. The front,
which owns the subscription, does the other steps; they cannot fail. A front that stops a generator early must end the
subscription that the generator requested.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from jetspark.engine.ordered_config import ordered_push_config
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.subscribe.existing_consumer import check_existing_consumer
from jetspark.engine.subscribe.options import ResolvedSubscribeOptions, SubscribeOptions, resolve_options
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
from jetspark.jetstream.names import check_publish_subject

__all__ = [
    "CREATOR",
    "LAST_ACK_TIMEOUT",
    "Binding",
    "Drain",
    "Step",
    "Subscribe",
    "Unsubscribe",
    "drain",
    "subscribe",
    "unsubscribe",
]

CREATOR: Final = "jetspark.creator"
"""Key of the creator's private token in the metadata of a named consumer (CRE-08)."""

LAST_ACK_TIMEOUT: Final = 0.25
"""Seconds that a drain waits after the last message was taken, so that the program can acknowledge it first."""

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
    """Send UNSUB, and drop messages that were not taken."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Send UNSUB, and wait until all received messages are handled."""


Step: TypeAlias = Request[Any] | Subscribe | Unsubscribe | Drain


@dataclass(frozen=True, slots=True)
class Binding:
    """A subscription and its consumer."""

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    created: bool
    """Whether this subscription created the consumer; it then deletes it at its end."""
    pending: int
    """Number of messages pending when it began (CRE-09)."""
    config: ConsumerConfig
    """As the server reports it; as the caller gave it if there was no look-up."""
    ordered: OrderedCursor | None = None
    """The consumers of an ordered subscription, else None."""

    @property
    def deliver_subject(self) -> str:
        """Subject of the subscription; empty for a pull subscription."""
        return self.config.deliver_subject or ""

    @property
    def deliver_group(self) -> str:
        """Queue group, empty for none."""
        return self.config.deliver_group or ""

    @property
    def acknowledged(self) -> bool:
        """Whether messages need an acknowledgement. For the server, an unset policy means none."""
        return self.config.ack_policy not in {None, AckPolicy.NONE}

    @property
    def deletion(self) -> ConsumerDeleteRequest | None:
        """The request that deletes the consumer at the end; None if the subscription did not create it."""
        name = self.ordered.name if self.ordered is not None else self.consumer
        return ConsumerDeleteRequest(self.stream, name) if self.created else None


def subscribe(
    options: SubscribeOptions, new_inbox: Callable[[], str], new_name: Callable[[], str]
) -> Generator[Step, Any, Binding]:
    """Bind a subscription to an existing consumer, or create one for it.

    Parameters
    ----------
    options
        Options of the caller.
    new_inbox
        Returns a new deliver subject.
    new_name
        Returns a new unique word, for names of unnamed consumers and for private tokens.

    Raises
    ------
    ConfigError, BadNameError, BadSubjectError
        The options are not valid; no step was yielded.
    NoMatchingStreamError
        No stream or several streams capture the subject.
    BindingError
        The existing consumer does not match the options.
    APIError, RequestTimeoutError, JetStreamNotEnabledError
        A request failed.
    """
    wanted = resolve_options(options)
    stream = wanted.stream or (yield from _find_stream(wanted.subject))
    if wanted.name is not None and not wanted.skip_lookup:
        info = yield from _look_up(wanted, stream, wanted.name)
        if info is not None:
            check_existing_consumer(wanted, info)
            if not wanted.pull:
                yield Subscribe(_deliver_subject(info), wanted.queue)
            return _bound(info)
    if wanted.bind:
        return (yield from _bind_without_lookup(wanted, stream))
    return (yield from _create(wanted, stream, new_inbox, new_name))


def unsubscribe(binding: Binding) -> Generator[Step, Any, None]:
    """End a subscription at once, and delete the consumer if it created it. Raises the error of the deletion."""
    yield Unsubscribe()
    yield from _delete(binding)


def drain(binding: Binding) -> Generator[Step, Any, Error | None]:
    """End a subscription when its messages are handled. Then delete the consumer; earlier, their acks would be lost.

    Returns the error of the deletion, for the error callback and not for the caller (UNS-04); None if it worked.
    """
    yield Drain()
    try:
        yield from _delete(binding)
    except Error as error:
        return error
    return None


def _delete(binding: Binding) -> Generator[Step, Any, None]:
    """Delete the created consumer. An ordered subscription may be between two consumers; then there is none."""
    if (request := binding.deletion) is not None:
        try:
            yield request
        except ConsumerNotFoundError:
            if binding.ordered is None:
                raise


def _find_stream(subject: str) -> Generator[Step, Any, str]:
    """Find the one stream that captures the subject (ADR-15, Stream name)."""
    page: Page[str] = yield StreamNamesRequest(subject_filter=subject)
    match page.items:
        case [name]:
            return name
        case []:
            raise NoMatchingStreamError(
                f"no stream matches subject {subject!r}; create one, or check the subject", subject=subject
            )
        case names:
            raise NoMatchingStreamError(
                f"several streams match subject {subject!r}: {', '.join(names)}; give the name of one",
                subject=subject,
                streams=tuple(names),
            )


def _deliver_subject(info: ConsumerInfo) -> str:
    """Return the subject to subscribe to; an answer of the API must not make it one with wildcards."""
    return check_publish_subject(info.config.deliver_subject or "")


def _look_up(wanted: ResolvedSubscribeOptions, stream: str, name: str) -> Generator[Step, Any, ConsumerInfo | None]:
    """Request the info of a consumer; None means to continue without it (ADR-15, Consumer name)."""
    try:
        info: ConsumerInfo = yield ConsumerInfoRequest(stream, name)
    except ConsumerNotFoundError:
        if wanted.bind:
            raise
        return None
    except (NoRespondersError, JetStreamNotEnabledError, RequestTimeoutError, PermissionsViolationError) as error:
        # An import or permissions may allow pulls, but not info requests (BND-03).
        if wanted.bind and wanted.pull and not getattr(error, "err_code", 0):
            return None
        raise
    return info


def _bind_without_lookup(wanted: ResolvedSubscribeOptions, stream: str) -> Generator[Step, Any, Binding]:
    """Bind to a consumer without its info, by the configuration that the caller gave."""
    assert wanted.name is not None, "binding needs a name"
    if not wanted.pull:
        if not wanted.config.deliver_subject:
            raise ConfigError(
                f"consumer {wanted.name!r}: skip_consumer_lookup needs deliver_subject in the configuration"
            )
        yield Subscribe(wanted.config.deliver_subject, wanted.queue)
    config = wanted.config
    if config.ack_policy is None:
        config = config.replace(ack_policy=AckPolicy.EXPLICIT)
    return Binding(stream, wanted.name, created=False, pending=0, config=config)


def _create(
    wanted: ResolvedSubscribeOptions, stream: str, new_inbox: Callable[[], str], new_name: Callable[[], str]
) -> Generator[Step, Any, Binding]:
    """Create the consumer. For push, SUB comes first: it shows the server that the durable consumer is in use."""
    ordered = None
    if wanted.ordered:
        ordered = OrderedCursor(
            ordered_push_config(wanted.config, wanted.subject), new_name(), wanted.on_stream_recreated
        )
    deliver = "" if wanted.pull else wanted.config.deliver_subject or new_inbox()
    config = (
        ordered.next_config().replace(deliver_subject=deliver) if ordered else _new_config(wanted, deliver, new_name)
    )
    if deliver:
        yield Subscribe(deliver, wanted.queue)
    try:
        try:
            info: ConsumerInfo = yield ConsumerCreateRequest(stream, config, ConsumerAction.CREATE)
        except ConsumerExistsError as lost:
            return (yield from _bind_to_existing(wanted, stream, lost))
    except Error:
        if deliver:
            yield Unsubscribe()
        raise
    if ordered is not None:
        ordered.created(info)
    return _bound(info, created=True, ordered=ordered)


def _bind_to_existing(
    wanted: ResolvedSubscribeOptions, stream: str, lost: ConsumerExistsError
) -> Generator[Step, Any, Binding]:
    """Bind to a consumer that another client created between the look-up and the creation (CRE-06)."""
    assert wanted.name is not None, "only a name can be taken"
    info: ConsumerInfo = yield ConsumerInfoRequest(stream, wanted.name)
    check_existing_consumer(wanted, info)
    if not wanted.pull:
        if not wanted.queue:
            raise lost
        yield Unsubscribe()
        yield Subscribe(_deliver_subject(info), wanted.queue)
    return _bound(info)


def _new_config(wanted: ResolvedSubscribeOptions, deliver: str, new_name: Callable[[], str]) -> ConsumerConfig:
    """Return the caller's configuration with the defaults of ADR-15.

    A consumer with a name that others know gets a private token. Without it, the server would accept a second creation
    with the same configuration, and both creators would delete the consumer. A consumer with a random name needs no
    token; the server deletes it when it is inactive.
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


def _bound(info: ConsumerInfo, *, created: bool = False, ordered: OrderedCursor | None = None) -> Binding:
    return Binding(
        info.stream_name,
        info.name,
        created=created,
        pending=info.num_pending + (info.delivered.consumer_sequence if created else 0),
        config=info.config,
        ordered=ordered,
    )
