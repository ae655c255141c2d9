"""The commit consumer: a durable consumer of a query. Its ack floor is the last sequence that Spark has committed.

It delivers no messages. As long as it exists, an interest stream retains all messages that the query has not read yet.
The metadata of the consumer contain the sequence from which that is true. The consumer may be deleted, also while the
query is stopped. The next run then creates a new one, which retains messages only from then on. The metadata show which
messages may be missing.
"""

from __future__ import annotations

from typing import Final

from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy, StreamState
from jetspark.jetstream.errors import ConfigError
from jetspark.spark.streams.ranges import Loss
from jetspark.wire.untrusted import parse_number

__all__ = [
    "check_commit_consumer",
    "check_reset_version",
    "commit_consumer_config",
    "complete_from",
    "losses_if_deleted",
    "possible_losses",
    "retained_from",
]

_COMMIT_CONSUMER_KEY: Final = "jetspark.commit_consumer"
_RETAINED_FROM_KEY: Final = "jetspark.retained_from"
_MIN_RESET_VERSION: Final = (2, 14)
"""First server that moves a consumer to a sequence (CONSUMER.RESET)."""


def commit_consumer_config(name: str, subjects: tuple[str, ...], first_retained: int | None = None) -> ConsumerConfig:
    """Return the configuration of a commit consumer that retains all messages from `first_retained`; None: unknown."""
    return ConsumerConfig(
        durable_name=name,
        description="commit consumer of a Spark query: its ack floor is the last sequence that Spark has committed",
        metadata={
            _COMMIT_CONSUMER_KEY: "ack floor",
            **({} if first_retained is None else {_RETAINED_FROM_KEY: str(first_retained)}),
        },
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
    )


def check_commit_consumer(found: ConsumerConfig, wanted: ConsumerConfig, stream: str) -> None:
    """Check that the existing consumer is a commit consumer with the same filters. Raises ConfigError if it is not."""
    where = f"option commitConsumer: consumer {wanted.durable_name} of stream {stream}"
    if _COMMIT_CONSUMER_KEY not in (found.metadata or {}):
        raise ConfigError(
            f"{where} was not created for a Spark query, so moving it would skip messages that others read from it; "
            "choose another name"
        )
    if _filters(found) != _filters(wanted):
        raise ConfigError(
            f"{where} has the filter {', '.join(_filters(found)) or '>'}, but option subject is "
            f"{', '.join(_filters(wanted)) or '>'}; choose another name, or delete that consumer"
        )


def _filters(config: ConsumerConfig) -> list[str]:
    return sorted(config.filter_subjects or ([config.filter_subject] if config.filter_subject else []))


def check_reset_version(version: str, name: str) -> None:
    """Check that a server can move the commit consumer. Raises ConfigError."""
    parts = version.split("-")[0].split(".")[:2]
    numbers = tuple(number for part in parts if (number := parse_number(part)) is not None)
    if numbers < _MIN_RESET_VERSION:
        raise ConfigError(
            f"option commitMode = consumer: server version {version} cannot move consumer {name}; use "
            f"{'.'.join(map(str, _MIN_RESET_VERSION))} or newer"
        )


def retained_from(config: ConsumerConfig) -> int | None:
    """Return the sequence from which a commit consumer retains all messages; None if its metadata do not have it."""
    return parse_number((config.metadata or {}).get(_RETAINED_FROM_KEY))


def complete_from(state: StreamState) -> int:
    """Return the sequence from which a stream is complete: its first one, or its end if messages were deleted."""
    return max(state.first_sequence if not state.num_deleted else state.last_sequence + 1, 1)


def possible_losses(stream: str, name: str, at: int, first_retained: int) -> list[Loss]:
    """Return the possible losses of an interest stream from `at`, if its consumer retains from `first_retained`."""
    if first_retained <= at:
        return []
    reason = (
        f"consumer {name}, for which the stream keeps its messages, was deleted and created again; of sequences {at} "
        f"to {first_retained - 1} the stream has dropped all messages that no other consumer had to read"
    )
    return [Loss(stream, None, None, reason)]


def losses_if_deleted(stream: str, name: str, first: int, last: int, found: ConsumerConfig | None) -> list[Loss]:
    """Return the possible losses of a range that was read. They follow from the consumer that was found afterwards.

    Parameters
    ----------
    stream, name
        The stream, and the consumer that should have retained the range.
    first, last
        First and last sequence of the range.
    found
        Configuration of that consumer; None if it does not exist.
    """
    since = None if found is None else retained_from(found)
    if since is not None and since <= first:
        return []
    reason = (
        f"consumer {name}, for which the stream keeps its messages, was deleted while sequences {first} to {last} were "
        "read; before that, the stream may have dropped those that no other consumer had to read"
    )
    return [Loss(stream, None, None, reason)]
