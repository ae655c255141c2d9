"""The durable consumer that follows a query: nobody pulls from it, its ack floor is what Spark has committed.

As long as it is there, an interest stream keeps what the query has still to read. Its metadata say since which sequence
that holds. So when somebody deletes it, also while the query is stopped, the next run knows where messages may be
missing: the consumer that it makes instead holds from there on only.
"""

from __future__ import annotations

from typing import Final

from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy, StreamState
from jetspark.jetstream.errors import ConfigError
from jetspark.spark.streams.ranges import Loss

__all__ = [
    "check_commit_consumer",
    "check_version",
    "commit_consumer_config",
    "complete_from",
    "losses_if_deleted",
    "possible_losses",
    "retained_from",
]

_MARK: Final = "jetspark.follows"
_SINCE: Final = "jetspark.since"
_RESET_SINCE: Final = (2, 14)
"""First server that moves a consumer to a sequence (CONSUMER.RESET)."""


def commit_consumer_config(name: str, subjects: tuple[str, ...], since: int | None = None) -> ConsumerConfig:
    """Return the configuration of a follower that holds everything from a sequence on; None does not say it yet."""
    return ConsumerConfig(
        durable_name=name,
        description="follows a Spark query: its ack floor is what Spark has committed",
        metadata={_MARK: "ack floor", **({} if since is None else {_SINCE: str(since)})},
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
    )


def check_commit_consumer(found: ConsumerConfig, wanted: ConsumerConfig, stream: str) -> None:
    """See that a consumer under the follower's name is one. Raises ConfigError for another, and for other filters."""
    where = f"option commitConsumer: consumer {wanted.durable_name} of stream {stream}"
    if _MARK not in (found.metadata or {}):
        raise ConfigError(
            f"{where} was not made for a Spark query, and moving it would skip what others have to read from it; "
            "choose another name"
        )
    if _filters(found) != _filters(wanted):
        raise ConfigError(
            f"{where} follows the subjects {', '.join(_filters(found)) or '>'}, and option subject says "
            f"{', '.join(_filters(wanted)) or '>'}; choose another name, or delete that consumer"
        )


def _filters(config: ConsumerConfig) -> list[str]:
    return sorted(config.filter_subjects or ([config.filter_subject] if config.filter_subject else []))


def check_version(version: str, name: str) -> None:
    """See that a server can move the follower. Raises ConfigError."""
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdecimal())
    if numbers < _RESET_SINCE:
        raise ConfigError(
            f"option commitMode = consumer: consumer {name} cannot be moved by a server of version {version}; that "
            f"needs {'.'.join(map(str, _RESET_SINCE))} or newer"
        )


def retained_from(config: ConsumerConfig) -> int | None:
    """Return the sequence from which a follower holds everything; None where its maker did not come to say so."""
    text = (config.metadata or {}).get(_SINCE, "")
    return int(text) if text.isdecimal() else None


def complete_from(state: StreamState) -> int:
    """Return the sequence from which a stream lacks nothing, as far as its state tells: from its first one, or none."""
    return max(state.first_seq if not state.num_deleted else state.last_seq + 1, 1)


def possible_losses(stream: str, name: str, at: int, since: int) -> list[Loss]:
    """What of a stream of interest may be missing at a place, for a follower that holds from another place on."""
    if since <= at:
        return []
    reason = (
        f"consumer {name}, for which the stream keeps its messages, was deleted and made again; of sequences {at} to "
        f"{since - 1} the stream has dropped what no other consumer had to read"
    )
    return [Loss(stream, None, None, reason)]


def losses_if_deleted(stream: str, name: str, first: int, last: int, found: ConsumerConfig | None) -> list[Loss]:
    """What of a range that was just read the stream may have dropped before, by the follower that is there afterwards.

    Parameters
    ----------
    stream, name
        The stream, and the consumer that is to have held the range.
    first, last
        First and last sequence of the range.
    found
        That consumer's configuration, None when it is gone.
    """
    since = None if found is None else retained_from(found)
    if since is not None and since <= first:
        return []
    reason = (
        f"consumer {name}, for which the stream keeps its messages, was deleted while sequences {first} to {last} were "
        "read; of them the stream may have dropped before what no other consumer had to read"
    )
    return [Loss(stream, None, None, reason)]
