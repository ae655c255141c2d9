"""Check whether an existing consumer matches the wanted subscription (ADR-15, binding checks)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from jetspark.engine.subscribe.options import ResolvedSubscribeOptions
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import (
    ConsumerAlreadyBoundError,
    ConsumerConfigMismatchError,
    DeliverGroupMismatchError,
    DeliverGroupMissingError,
    DeliverGroupRequiredError,
    NotPullConsumerError,
    NotPushConsumerError,
    QueueFeatureError,
    SubjectMismatchError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.jetstream.times import format_go_duration

__all__ = ["check_existing_consumer"]

# Some fields are checked separately (name, filters, group). Others may differ: metadata, and by ADR-15 the deliver
# subject and the pause.
_NOT_COMPARED: Final = frozenset(
    {
        "deliver_group",
        "deliver_subject",
        "extra",
        "filter_subject",
        "filter_subjects",
        "metadata",
        "name",
        "pause_until",
    }
)


def check_existing_consumer(wanted: ResolvedSubscribeOptions, info: ConsumerInfo) -> None:
    """Check that the wanted subscription may bind to a consumer.

    Raises
    ------
    BindingError
        The consumer does not match; the subclass says why (BND-05 to BND-10).
    """
    if wanted.pull:
        _check_pull(info)
    else:
        _check_push(wanted, info)
    _check_subject(wanted, info)
    _check_config(wanted.config, info)


def _check_pull(info: ConsumerInfo) -> None:
    if info.config.deliver_subject:
        raise NotPullConsumerError(
            f"{_name(info)} is a push consumer (to {info.config.deliver_subject!r}); use a push subscription",
            **_where(info),
        )


def _check_push(wanted: ResolvedSubscribeOptions, info: ConsumerInfo) -> None:
    config, queue = info.config, wanted.queue
    if not config.deliver_subject:
        raise NotPushConsumerError(f"{_name(info)} is a pull consumer; use a pull subscription", **_where(info))
    group = config.deliver_group or ""
    if group and not queue:
        raise DeliverGroupRequiredError(
            f"{_name(info)} has the deliver group {group!r}; subscribe with queue={group!r}", **_where(info)
        )
    if queue and not group:
        raise DeliverGroupMissingError(
            f"{_name(info)} has no deliver group; subscribe without queue={queue!r}, or choose another consumer",
            **_where(info),
        )
    if queue != group:
        raise DeliverGroupMismatchError(
            f"{_name(info)} has the deliver group {group!r}, not {queue!r}; subscribe with queue={group!r}",
            **_where(info),
        )
    if queue and (config.idle_heartbeat or config.flow_control):
        raise QueueFeatureError(
            f"{_name(info)} sends heartbeats or flow control, which reach only one member of the queue {queue!r}; "
            "turn them off",
            **_where(info),
        )
    if info.push_bound and not queue:
        raise ConsumerAlreadyBoundError(
            f"{_name(info)} is already bound to a subscription; end that one, or choose another consumer",
            **_where(info),
        )


def _check_subject(wanted: ResolvedSubscribeOptions, info: ConsumerInfo) -> None:
    """Check the filters. An empty one matches: a server may omit a filter equal to the stream's subjects (BND-07)."""
    asked = wanted.config.filter_subjects
    have = info.config.filter_subjects or ([info.config.filter_subject] if info.config.filter_subject else [])
    if asked:
        if sorted(asked) != sorted(have):
            raise SubjectMismatchError(
                f"{_name(info)} filters for {have}, not for {asked}; choose another consumer", **_where(info)
            )
    elif wanted.subject and have and wanted.subject not in have:
        raise SubjectMismatchError(
            f"{_name(info)} filters for {' and '.join(map(repr, have))}, not for {wanted.subject!r}; "
            "choose another consumer",
            **_where(info),
        )


def _check_config(asked: ConsumerConfig, info: ConsumerInfo) -> None:
    """Check that all fields that the caller set are equal (BND-09). Zero means the server's default and matches."""
    differences: dict[str, tuple[object, object]] = {}
    for name in ConsumerConfig.__struct_fields__:
        wish = getattr(asked, name)
        if name in _NOT_COMPARED or wish is None or not (wish or isinstance(wish, bool)):
            continue
        if name == "ack_wait" and asked.backoff:  # the server then uses the first wait of the backoff
            continue
        fact = getattr(info.config, name)
        if wish != (bool(fact) if isinstance(wish, bool) else fact):
            differences[name] = (wish, fact)
    if differences:
        told = ", ".join(f"{name} is {_shown(fact)}, not {_shown(wish)}" for name, (wish, fact) in differences.items())
        raise ConsumerConfigMismatchError(
            f"{_name(info)} has another configuration, and a subscription does not change it: {told}",
            stream=info.stream_name,
            consumer=info.name,
            differences=differences,
        )


def _shown(value: object) -> str:
    return format_go_duration(value) if isinstance(value, timedelta) else "unset" if value is None else str(value)


def _name(info: ConsumerInfo) -> str:
    return f"consumer {info.name!r} of stream {info.stream_name!r}"


def _where(info: ConsumerInfo) -> dict[str, str]:
    return {"stream": info.stream_name, "consumer": info.name}
