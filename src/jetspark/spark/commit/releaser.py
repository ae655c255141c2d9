"""Releases messages after Spark's commit: not at all, by the ack floor of a durable consumer, or by a purge.

This happens after Spark's commit and never before. So a crash in between only delays the release: the next commit
releases the same messages and more. Each request contains a sequence and not a number of messages, so it can be safely
repeated. Positions are stored only in Spark's checkpoint. The consumer's position is set from it and never read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.engine.retry import can_resume
from jetspark.jetstream import ConsumerConfig, ConsumerInfo, RetentionPolicy, StreamInfo
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    ConsumerResetRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
)
from jetspark.jetstream.errors import ConfigError, ConsumerNotFoundError, Error, StreamNotFoundError
from jetspark.jetstream.times import time_ns
from jetspark.spark.commit.commit_consumer import (
    check_commit_consumer,
    check_reset_version,
    commit_consumer_config,
    complete_from,
    possible_losses,
    retained_from,
)
from jetspark.spark.connections import call_with_connection
from jetspark.spark.options.stream_read import CommitMode, ReleaseOptions, StreamReadOptions
from jetspark.spark.streams.offsets import StreamExtent, StreamOffset
from jetspark.spark.streams.ranges import Loss
from jetspark.spark.streams.state import StreamStates

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["Releaser", "check_commit_mode", "purge_requests"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


def check_commit_mode(info: StreamInfo, options: ReleaseOptions) -> None:
    """Check that the commit mode fits the stream.

    Raises
    ------
    ConfigError
        The mode is `purge`, the stream is not a work queue, and `allowPurge` is not set. Or the mode is `consumer`, and
        the stream is a work queue.
    """
    name, retention = info.config.name, info.config.retention or RetentionPolicy.LIMITS
    work_queue = retention is RetentionPolicy.WORK_QUEUE
    if options.mode is CommitMode.PURGE and not work_queue and not options.allow_purge:
        raise ConfigError(
            f"option commitMode = purge: stream {name} has retention {retention.value}, so a purge would delete "
            "messages that others may read; leave the option out, or set option allowPurge = true to purge them"
        )
    if options.mode is CommitMode.PURGE and info.config.deny_purge:
        raise ConfigError(
            f"option commitMode = purge: stream {name} does not allow purges (deny_purge); choose another commitMode"
        )
    if options.mode is CommitMode.CONSUMER and work_queue:
        raise ConfigError(
            f"option commitMode = consumer: stream {name} is a work queue, which releases messages only when they "
            "are acknowledged one by one; use commitMode = purge"
        )


def purge_requests(stream: str, subjects: tuple[str, ...], committed: StreamOffset) -> list[StreamPurgeRequest]:
    """Return the purge requests for everything before a committed offset: one for each filter."""
    if committed.next <= 1:
        return []  # for the server, sequence 0 means all messages
    return [StreamPurgeRequest(stream, filter=subject, sequence=committed.next) for subject in subjects or (None,)]


class Releaser:
    """Releases the messages that Spark has committed. Does nothing with `commitMode` = `none`."""

    def __init__(self, options: StreamReadOptions, states: StreamStates) -> None:
        self._options = options
        self._server = options.read.server
        self._states = states
        self._release = options.release
        # By stream: the last offset that is done, so that no request is sent for it again.
        self._released: dict[str, StreamOffset] = {}
        # By stream: the offset for which nothing is released, because the stream lacks messages that were read.
        self._withheld: dict[str, StreamOffset] = {}
        # By stream: the sequence from which its commit consumer retains all messages; None if unknown.
        self._retained_from: dict[str, int | None] = {}
        self._interest_streams: set[str] = set()
        # For a new query: the offsets at which its commit consumers begin. Empty after they have begun.
        self._starts: dict[str, StreamOffset] = {}

    def prepare(self, infos: Mapping[str, StreamInfo]) -> None:
        """Check new streams and create the commit consumers, so that an interest stream retains new messages.

        Raises
        ------
        ConfigError
            See `check_commit_mode`, `check_reset_version` and `check_commit_consumer`.
        """
        retentions = {stream: info.config.retention for stream, info in infos.items()}
        self._interest_streams.update(each for each in infos if retentions[each] is RetentionPolicy.INTEREST)
        for stream, info in infos.items():
            check_commit_mode(info, self._release)
            if self._release.mode is CommitMode.CONSUMER:
                self._call_with_connection(partial(self._commit_consumer, stream))

    def set_start(self, start: Mapping[str, StreamOffset]) -> None:
        """Remember the offsets at which a query begins, in new streams or in all of them.

        Spark also asks for them before it repeats a first micro-batch. The commit consumers have begun then. If they
        were deleted, it is unknown which messages are lost. So they begin later, when a batch is planned.
        """
        if self._release.mode is CommitMode.CONSUMER:
            self._starts.update(start)

    def start_consumers(self) -> None:
        """Move the commit consumers of a new query to its start, before its first micro-batch is planned."""
        for stream, offset in self._starts.items():
            self._call_with_connection(partial(self._start_consumer, stream, offset))
        self._starts = {}

    def possible_losses(self, stream: str, at: StreamOffset) -> list[Loss]:
        """Return the messages that an interest stream may have dropped while the commit consumer did not exist."""
        if self._release.mode is not CommitMode.CONSUMER or stream not in self._interest_streams:
            return []
        if self._retained_from[stream] is None:  # the query began in an earlier run, and its consumer was deleted
            self._call_with_connection(partial(self._record_complete_from, stream))
        return possible_losses(stream, self._release.consumer, at.next, self._retained_from[stream] or 0)

    def retaining_consumer(self, stream: str, sequence: int) -> str | None:
        """Return the consumer that makes an interest stream retain all messages from a sequence; None without one."""
        since = self._retained_from.get(stream)  # None without commit consumers
        return (
            self._release.consumer
            if stream in self._interest_streams and since is not None and since <= sequence
            else None
        )

    def release(self, committed: Mapping[str, StreamOffset], strict: bool = False) -> set[str]:
        """Release the messages before these offsets.

        A transient failure is only logged, unless `strict`: the next commit releases the same messages and more.

        Returns
        -------
        set[str]
            Streams that lack committed messages. They release nothing.

        Raises
        ------
        PermissionsViolationError, APIError, ...
            The server refuses a request.
        """
        mismatched: set[str] = set()
        if self._release.mode is CommitMode.NONE:
            return mismatched
        for stream, offset in committed.items():
            place = replace(offset, start=None)  # the start of the micro-batch does not matter here
            if self._released.get(stream) != place:
                try:
                    self._release_stream(stream, place)
                except StreamNotFoundError:
                    if stream in self._options.read.streams:
                        raise
                    self._released[stream] = place  # a stream of a pattern, or one that was left out, was deleted
                except Error as error:
                    if strict or not can_resume(error):
                        raise
                    _log.warning(
                        "stream %s: cannot release up to sequence %d now; the next commit tries again: %s",
                        stream,
                        offset.next - 1,
                        error,
                    )
            if self._withheld.get(stream) == place:
                mismatched.add(stream)
        return mismatched

    def _release_stream(self, stream: str, committed: StreamOffset) -> None:
        """Release the committed messages, if the stream still has them."""
        info = self._call_with_connection(partial(self._info, stream))
        check_commit_mode(info, self._release)
        if time_ns(info.created) != committed.created_ns:
            self._withhold(stream, committed, "was deleted and created again; nothing of the new stream is released")
            self._released[stream] = committed  # not checked again before the next offset
            return
        if self._states.truncation(StreamExtent.of(info, self._options.read.subjects), committed) is not None:
            # Spark may commit the last end after the next batch was planned from the replaced messages.
            # The next commit checks again: a leader that was just elected may have caught up by then.
            self._withhold(
                stream,
                committed,
                f"lacks messages that were read up to {committed.next - 1} (an older state was restored, or its leader "
                "was just elected); nothing is released before the next commit",
            )
            return
        self._call_with_connection(
            partial(self._advance if self._release.mode is CommitMode.CONSUMER else self._purge, stream, committed)
        )
        self._withheld.pop(stream, None)
        self._released[stream] = committed

    def _withhold(self, stream: str, committed: StreamOffset, why: str) -> None:
        """Record that a stream releases nothing, and log that once for each offset."""
        if self._withheld.get(stream) != committed:
            self._withheld[stream] = committed
            _log.warning("stream %s %s", stream, why)

    def _purge(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        for request in purge_requests(stream, self._options.read.subjects, committed):
            gone = self._server.request(connection, request)
            _log.info("stream %s: purged %d messages before sequence %d", stream, gone, committed.next)

    def _start_consumer(self, stream: str, start: StreamOffset, connection: Connection) -> None:
        """Move a new commit consumer to an offset. One that has already begun is not moved."""
        info = self._commit_consumer(stream, connection)
        if self._retained_from[stream] is None:
            self._set_ack_floor(stream, info, start, connection)
            self._record_retained_from(stream, start.next, connection)

    def _advance(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        """Move the ack floor of the commit consumer. Create the consumer if it does not exist."""
        info = self._commit_consumer(stream, connection)
        if self._retained_from[stream] is None:
            self._record_complete_from(stream, connection)
        self._set_ack_floor(stream, info, committed, connection)

    def _set_ack_floor(self, stream: str, info: ConsumerInfo, to: StreamOffset, connection: Connection) -> None:
        """Move the ack floor of the commit consumer, never backwards."""
        if info.ack_floor.stream_sequence + 1 < to.next:
            name = self._release.consumer
            self._server.request(connection, ConsumerResetRequest(stream, name, sequence=to.next))
            _log.info("stream %s: consumer %s: ack floor moved to sequence %d", stream, name, to.next - 1)

    def _commit_consumer(self, stream: str, connection: Connection) -> ConsumerInfo:
        name = self._release.consumer
        check_reset_version(connection.server_info.version, name)
        config = self._config()
        try:
            info = self._server.request(connection, ConsumerInfoRequest(stream, name))
        except ConsumerNotFoundError:
            if stream in self._retained_from:
                _log.warning("stream %s: consumer %s was deleted and is created again", stream, name)
            info = self._server.request(connection, ConsumerCreateRequest(stream, config))
        else:
            check_commit_consumer(info.config, config, stream)
        self._retained_from[stream] = retained_from(info.config)
        return info

    def _record_complete_from(self, stream: str, connection: Connection) -> None:
        """Record from which sequence the stream is complete. The consumer exists, so no more messages are dropped."""
        self._record_retained_from(stream, complete_from(self._info(stream, connection).state), connection)

    def _info(self, stream: str, connection: Connection) -> StreamInfo:
        return self._server.request(connection, StreamInfoRequest(stream))

    def _record_retained_from(self, stream: str, since: int, connection: Connection) -> None:
        request = ConsumerCreateRequest(stream, self._config(since), ConsumerAction.UPDATE)
        self._server.request(connection, request)
        self._retained_from[stream] = since

    def _config(self, since: int | None = None) -> ConsumerConfig:
        return commit_consumer_config(self._release.consumer, self._options.read.subjects, since)

    def _call_with_connection(self, ask: Callable[[Connection], T]) -> T:
        return call_with_connection(self._server.connect, ask, self._options.read.retry_timeout)
