"""What a stream is told when Spark has committed: nothing, the ack floor of a durable consumer, or a purge.

Always after Spark's commit and never before, so a crash in between only delays it: the next commit releases the same
and more. What is told names a sequence and not a number of messages, so to tell it twice does nothing. Positions are in
Spark's checkpoint alone; the consumer follows and is never read from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.flow.ranges import is_passing
from jetspark.jetstream import ConsumerConfig, ConsumerInfo, RetentionPolicy, StreamInfo
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    ConsumerResetRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
)
from jetspark.jetstream.errors import ConfigError, ConsumerNotFoundError, Error
from jetspark.jetstream.times import time_ns
from jetspark.spark.commit.commit_consumer import (
    check_commit_consumer,
    check_version,
    commit_consumer_config,
    complete_from,
    possible_losses,
    retained_from,
)
from jetspark.spark.connections import asking
from jetspark.spark.options.stream_read import CommitMode, ReleaseOptions, StreamReadOptions
from jetspark.spark.streams.offsets import StreamExtent, StreamOffset
from jetspark.spark.streams.ranges import Loss
from jetspark.spark.streams.state import StreamStates

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["Releaser", "check_release", "purges"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


def check_release(info: StreamInfo, options: ReleaseOptions) -> None:
    """See that what is to be told goes with the stream.

    Raises
    ------
    ConfigError
        A purge of a stream that is no work queue, unless `allowPurge` is set; a follower of a work queue.
    """
    name, retention = info.config.name, info.config.retention or RetentionPolicy.LIMITS
    work_queue = retention is RetentionPolicy.WORK_QUEUE
    if options.mode is CommitMode.PURGE and not work_queue and not options.allow_purge:
        raise ConfigError(
            f"option commitMode = purge: stream {name} has retention {retention.value}; a purge would delete messages "
            "that others may want to read. Leave the option out, or set option allowPurge = true if that is meant"
        )
    if options.mode is CommitMode.PURGE and info.config.deny_purge:
        raise ConfigError(f"option commitMode = purge: stream {name} does not allow it (deny_purge)")
    if options.mode is CommitMode.CONSUMER and work_queue:
        raise ConfigError(
            f"option commitMode = consumer: stream {name} is a work queue, which releases messages only when they "
            "are acknowledged one by one; use commitMode = purge"
        )


def purges(stream: str, subjects: tuple[str, ...], committed: StreamOffset) -> list[StreamPurgeRequest]:
    """Return the purges of what lies before a committed offset: one for each filter."""
    if committed.next <= 1:
        return []  # the server takes sequence 0 for "all"
    return [StreamPurgeRequest(stream, filter=subject, seq=committed.next) for subject in subjects or (None,)]


class Releaser:
    """Tells the streams of a query what Spark has committed; does nothing with `commitMode` = `none`."""

    def __init__(self, options: StreamReadOptions, states: StreamStates) -> None:
        self._options = options
        self._server = options.read.server
        self._states = states
        self._release = options.release
        # By stream: the last offset that is settled, so that the server is not asked again for it.
        self._released: dict[str, StreamOffset] = {}
        # By stream: the offset for which nothing is released, because the stream does not hold what was read.
        self._withheld: dict[str, StreamOffset] = {}
        # By stream: the sequence from which its commit consumer retains everything; None while that is not known.
        self._retained_from: dict[str, int | None] = {}
        self._interest: frozenset[str] = frozenset()
        # Of a new query: where its commit consumers are to begin. Empty after they have begun.
        self._starts: dict[str, StreamOffset] = {}

    def prepare(self, infos: Mapping[str, StreamInfo]) -> None:
        """Refuse what does not go with a stream, and make the followers, so that an interest stream keeps what comes.

        Raises
        ------
        ConfigError
            See `check_release`, `check_version` and `check_commit_consumer`.
        """
        retentions = {stream: info.config.retention for stream, info in infos.items()}
        self._interest = frozenset(stream for stream in infos if retentions[stream] is RetentionPolicy.INTEREST)
        for stream, info in infos.items():
            check_release(info, self._release)
            if self._release.mode is CommitMode.CONSUMER:
                self._ask(partial(self._commit_consumer, stream))

    def start_at(self, start: Mapping[str, StreamOffset]) -> None:
        """Note where a query begins.

        Spark also asks for that when it is to repeat a first micro-batch. The followers have begun then; if they are
        gone, nobody knows what they would still hold. So they do not begin here, but when something is planned.
        """
        if self._release.mode is CommitMode.CONSUMER:
            self._starts = dict(start)

    def begin(self) -> None:
        """Let the followers of a new query begin where it begins: its first micro-batch is about to be planned."""
        for stream, offset in self._starts.items():
            self._ask(partial(self._begin, stream, offset))
        self._starts = {}

    def possible_losses(self, stream: str, at: StreamOffset) -> list[Loss]:
        """What an interest stream may have dropped at a place, because the follower was not there."""
        if self._release.mode is not CommitMode.CONSUMER or stream not in self._interest:
            return []
        if self._retained_from[stream] is None:  # the query has begun in an earlier run, and its follower is gone
            self._ask(partial(self._settle, stream))
        return possible_losses(stream, self._release.consumer, at.next, self._retained_from[stream] or 0)

    def retaining_consumer(self, stream: str, sequence: int) -> str | None:
        """Name of the follower that keeps a stream of interest whole from a sequence on; None where none does."""
        since = self._retained_from.get(stream)  # nothing where there are no followers
        return self._release.consumer if stream in self._interest and since is not None and since <= sequence else None

    def release(self, committed: Mapping[str, StreamOffset], strict: bool = False) -> set[str]:
        """Let the streams release what lies before these offsets.

        What fails and may work later is only logged, unless `strict`: the next commit says the same and more.

        Returns
        -------
        set[str]
            Streams that do not hold what was committed: nothing of them is released.

        Raises
        ------
        PermissionsViolationError, APIError, ...
            The server refuses.
        """
        mismatched: set[str] = set()
        if self._release.mode is CommitMode.NONE:
            return mismatched
        for stream, offset in committed.items():
            place = replace(offset, start=None)  # where the micro-batch began that ended there makes no difference
            if self._released.get(stream) != place:
                try:
                    self._release_stream(stream, place)
                except Error as error:
                    if strict or not is_passing(error):
                        raise
                    _log.warning("stream %s: not released up to %d yet: %s", stream, offset.next - 1, error)
            if self._withheld.get(stream) == place:
                mismatched.add(stream)
        return mismatched

    def _release_stream(self, stream: str, committed: StreamOffset) -> None:
        """Tell a stream, if it holds what was committed."""
        info = self._ask(partial(self._info, stream))
        check_release(info, self._release)
        if time_ns(info.created) != committed.created_ns:
            self._withhold(stream, committed, "was deleted and made again; nothing of the new one is released")
            self._released[stream] = committed  # it is not asked for again before there is another place
            return
        if self._states.truncation(StreamExtent.of(info, self._options.read.subjects), committed) is not None:
            # Spark tells of the last end when the planning has gone back already, to what replaced the lost messages.
            # It is asked again with the next commit: a leader that was just elected may know of it by then.
            self._withhold(
                stream,
                committed,
                f"does not hold what was read up to {committed.next - 1} (an older state was restored, or its leader "
                "was just elected); nothing is released before the next commit",
            )
            return
        self._ask(
            partial(self._advance if self._release.mode is CommitMode.CONSUMER else self._purge, stream, committed)
        )
        self._withheld.pop(stream, None)
        self._released[stream] = committed

    def _withhold(self, stream: str, committed: StreamOffset, why: str) -> None:
        """Release nothing of a stream, and say so once for each place."""
        if self._withheld.get(stream) != committed:
            self._withheld[stream] = committed
            _log.warning("stream %s %s", stream, why)

    def _purge(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        for request in purges(stream, self._options.read.subjects, committed):
            gone = self._server.request(connection, request)
            _log.info("stream %s: purged %d messages before %d", stream, gone, committed.next)

    def _begin(self, stream: str, start: StreamOffset, connection: Connection) -> None:
        """Let a new follower begin at a place; one that has begun stays where it is."""
        info = self._commit_consumer(stream, connection)
        if self._retained_from[stream] is None:
            self._set_ack_floor(stream, info, start, connection)
            self._mark(stream, start.next, connection)

    def _advance(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        """Set the follower's ack floor; make it if it is not there."""
        info = self._commit_consumer(stream, connection)
        if self._retained_from[stream] is None:
            self._settle(stream, connection)
        self._set_ack_floor(stream, info, committed, connection)

    def _set_ack_floor(self, stream: str, info: ConsumerInfo, to: StreamOffset, connection: Connection) -> None:
        """Set the follower's ack floor, never back."""
        if info.ack_floor.stream_seq + 1 < to.next:
            name = self._release.consumer
            self._server.request(connection, ConsumerResetRequest(stream, name, seq=to.next))
            _log.info("stream %s: consumer %s follows up to %d", stream, name, to.next - 1)

    def _commit_consumer(self, stream: str, connection: Connection) -> ConsumerInfo:
        name = self._release.consumer
        check_version(connection.server_info.version, name)
        config = self._config()
        try:
            info = self._server.request(connection, ConsumerInfoRequest(stream, name))
        except ConsumerNotFoundError:
            if stream in self._retained_from:
                _log.warning("stream %s: consumer %s was deleted and is made again", stream, name)
            info = self._server.request(connection, ConsumerCreateRequest(stream, config))
        else:
            check_commit_consumer(info.config, config, stream)
        self._retained_from[stream] = retained_from(info.config)
        return info

    def _settle(self, stream: str, connection: Connection) -> None:
        """Note from where on the stream lacks nothing, now that the follower is there and nothing is dropped."""
        self._mark(stream, complete_from(self._info(stream, connection).state), connection)

    def _info(self, stream: str, connection: Connection) -> StreamInfo:
        return self._server.request(connection, StreamInfoRequest(stream))

    def _mark(self, stream: str, since: int, connection: Connection) -> None:
        request = ConsumerCreateRequest(stream, self._config(since), ConsumerAction.UPDATE)
        self._server.request(connection, request)
        self._retained_from[stream] = since

    def _config(self, since: int | None = None) -> ConsumerConfig:
        return commit_consumer_config(self._release.consumer, self._options.read.subjects, since)

    def _ask(self, ask: Callable[[Connection], T]) -> T:
        return asking(self._server.connect, ask, self._options.read.retry_timeout)
