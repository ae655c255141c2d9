"""Options of a subscription, and their checks before anything is sent (ADR-15, Configuration)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from jetspark.engine.ordered_stream import OnStreamRecreated, restarts
from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import check_consumer_name, check_filter_subject, check_stream_name

__all__ = ["ResolvedSubscribeOptions", "SubscribeOptions", "merge_config", "resolve_options"]

_PULL_POLICIES: Final = (None, AckPolicy.EXPLICIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeOptions:
    """Options that the caller gave."""

    subject: str = ""
    """Subject to receive; it finds the stream if none is given, and is the filter of a new consumer."""
    stream: str | None = None
    """Name of the stream."""
    consumer: str | None = None
    """Name of an existing consumer to bind to; needs `stream`."""
    durable: str | None = None
    """Durable name; the subscription binds to this consumer, or creates it if it does not exist."""
    queue: str = ""
    """Queue group (push only)."""
    pull: bool = False
    """Whether it is a pull subscription."""
    ordered: bool = False
    """Whether it is an ordered subscription (ADR-17)."""
    on_stream_recreated: OnStreamRecreated = "error"
    """Reaction of an ordered subscription to a stream that was created again."""
    skip_lookup: bool = False
    """Whether to skip the request for the consumer's info."""
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    """Configuration of a new consumer; an existing consumer must match the fields that are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSubscribeOptions:
    """Checked options."""

    subject: str
    """As in the options."""
    stream: str | None
    """Name of the stream, None if the subject must find it."""
    name: str | None
    """Name of the consumer, None for a new consumer with any name."""
    bind: bool
    """Whether the consumer must exist."""
    queue: str
    """Queue group, empty for none."""
    pull: bool
    """Whether it is a pull subscription."""
    ordered: bool
    """Whether it is an ordered subscription."""
    on_stream_recreated: OnStreamRecreated
    """As in the options."""
    skip_lookup: bool
    """Whether to skip the request for the consumer's info."""
    config: ConsumerConfig
    """Only the fields that the caller set."""


def merge_config(config: ConsumerConfig | None, **arguments: object) -> ConsumerConfig:
    """Return the configuration with the arguments that are not None.

    Raises ConfigError if an argument differs from the configuration.
    """
    result = config or ConsumerConfig()
    changes = {name: value for name, value in arguments.items() if value is not None}
    for name, value in changes.items():
        given = getattr(result, name)
        if given is not None and given != value:
            raise ConfigError(f"{name} is {value!r} as an argument and {given!r} in the configuration; give it once")
    return result.replace(**changes)


def resolve_options(options: SubscribeOptions) -> ResolvedSubscribeOptions:
    """Check the options and return them in their checked form.

    Raises
    ------
    ConfigError, BadNameError, BadSubjectError
        The options are not valid (CFG-01 to CFG-05, ORD-01).
    """
    config = options.config
    subject = _one("subject and filter_subject", options.subject, config.filter_subject) or ""
    queue = _one("queue and deliver_group", options.queue, config.deliver_group) or ""
    bind = options.consumer is not None
    if bind and not options.stream:
        raise ConfigError(f"binding to the consumer {options.consumer!r} needs the name of its stream; give it, too")
    if not subject and not options.stream:
        raise ConfigError("neither subject nor stream is given; give one of them to find the stream")
    if subject:
        check_filter_subject(subject)
    if options.stream is not None:
        check_stream_name(options.stream)
    durable = _one("durable and durable_name", options.durable, config.durable_name)
    name = _one("durable name and consumer name", _one("consumer and name", options.consumer, config.name), durable)
    restarts(options.on_stream_recreated)
    if options.ordered:
        _check_ordered(options, name, queue)
    if options.pull:
        _check_pull(config, queue)
    if queue:
        _check_queue(config)
        if name is None:
            name = durable = queue  # QUE-01: otherwise each member would create its own consumer
    if name is not None:
        check_consumer_name(name)
    return ResolvedSubscribeOptions(
        subject=subject,
        stream=options.stream or None,
        name=name,
        bind=bind,
        queue=queue,
        pull=options.pull,
        ordered=options.ordered,
        on_stream_recreated=options.on_stream_recreated,
        skip_lookup=options.skip_lookup,
        config=config.replace(durable_name=durable or None),
    )


def _one(what: str, first: str | None, second: str | None) -> str | None:
    """Return the one of two equivalent options that was given."""
    if first and second and first != second:
        raise ConfigError(f"{what} differ: {first!r} and {second!r}; give only one of them")
    return first or second or (second if first is None else first)


def _check_queue(config: ConsumerConfig) -> None:
    for name in ("idle_heartbeat", "flow_control"):
        if getattr(config, name):
            raise ConfigError(f"{name} cannot be used with a queue, because only one random member would receive it")


def _check_pull(config: ConsumerConfig, queue: str) -> None:
    if config.ack_policy not in _PULL_POLICIES:
        raise ConfigError(f"a pull subscription needs ack policy explicit, not {config.ack_policy}")
    if config.deliver_subject:
        raise ConfigError("a pull subscription cannot have a deliver_subject; leave it out")
    if queue:
        raise ConfigError("a pull subscription cannot have a queue; several of them can share one consumer without it")


def _check_ordered(options: SubscribeOptions, name: str | None, queue: str) -> None:
    """Refuse options that an ordered subscription sets itself (ORD-01)."""
    config = options.config
    refused: dict[str, bool] = {
        "a durable or consumer name": name is not None or options.consumer is not None,
        "a queue": bool(queue),
        "pull mode": options.pull,
        "a deliver_subject": bool(config.deliver_subject),
        f"ack policy {config.ack_policy}": config.ack_policy not in {None, AckPolicy.NONE},
        f"max_deliver {config.max_deliver}": config.max_deliver not in {None, 1},
        "flow_control off": config.flow_control is False,
        "mem_storage off": config.mem_storage is False,
        "num_replicas": config.num_replicas is not None,
        "an ack_wait": config.ack_wait is not None,
    }
    for what, given in refused.items():
        if given:
            raise ConfigError(f"an ordered subscription cannot have {what}; leave it out")
