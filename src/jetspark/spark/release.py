"""What a stream is told when Spark has committed: nothing, the ack floor of a durable consumer, or a purge.

Always after Spark's commit and never before, so a crash in between only delays it: the next commit releases the same
and more. What is told names a sequence and not a number of messages, so to tell it twice does nothing. Positions are in
Spark's checkpoint alone; the consumer follows and is never read from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from jetspark.flow.ranges import is_passing
from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy, RetentionPolicy, StreamInfo
from jetspark.jetstream.api import (
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    ConsumerResetRequest,
    StreamInfoRequest,
    StreamPurgeRequest,
)
from jetspark.jetstream.errors import ConfigError, ConsumerNotFoundError, Error
from jetspark.jetstream.times import time_ns
from jetspark.spark.stream_heads import asking
from jetspark.spark.stream_offsets import StreamOffset
from jetspark.spark.stream_options import CommitMode, ReleaseOptions, StreamReadOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["Releaser", "check_follower", "check_release", "check_version", "follower_config", "purges"]

_log: Final = logging.getLogger(__name__)
_MARK: Final = "jetspark.follows"
_RESET_SINCE: Final = (2, 14)
"""First server that moves a consumer to a sequence (CONSUMER.RESET)."""


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


def follower_config(name: str, subjects: tuple[str, ...]) -> ConsumerConfig:
    """Return the configuration of the durable follower: nobody pulls from it, its ack floor is set."""
    return ConsumerConfig(
        durable_name=name,
        description="follows a Spark query: its ack floor is what Spark has committed",
        metadata={_MARK: "ack floor"},
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
    )


def check_follower(found: ConsumerConfig, wanted: ConsumerConfig, stream: str) -> None:
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


def purges(stream: str, subjects: tuple[str, ...], committed: StreamOffset) -> list[StreamPurgeRequest]:
    """Return the purges of what lies before a committed offset: one for each filter."""
    if committed.next <= 1:
        return []  # the server takes sequence 0 for "all"
    return [StreamPurgeRequest(stream, filter=subject, seq=committed.next) for subject in subjects or (None,)]


class Releaser:
    """Tells the streams of a query what Spark has committed; does nothing with `commitMode` = `none`."""

    def __init__(self, options: StreamReadOptions) -> None:
        self._options = options
        self._release = options.release
        self._done: dict[str, StreamOffset] = {}
        self._followed: set[str] = set()

    def prepare(self, infos: Mapping[str, StreamInfo]) -> None:
        """Refuse what does not go with a stream, and make the followers, so that an interest stream keeps what comes.

        Raises
        ------
        ConfigError
            See `check_release`, `check_version` and `check_follower`.
        """
        for stream, info in infos.items():
            check_release(info, self._release)
            if self._release.mode is CommitMode.CONSUMER:
                self._ask(partial(self._follower, stream))

    def start_at(self, start: Mapping[str, StreamOffset]) -> None:
        """Let the followers of a new query begin where it begins."""
        if self._release.mode is CommitMode.CONSUMER:
            for stream, offset in start.items():
                self._ask(partial(self._follow, stream, offset))

    def release(self, committed: Mapping[str, StreamOffset], strict: bool = False) -> None:
        """Let the streams release what lies before these offsets.

        What fails and may work later is only logged, unless `strict`: the next commit says the same and more.

        Raises
        ------
        PermissionsViolationError, APIError, ...
            The server refuses.
        """
        if self._release.mode is CommitMode.NONE:
            return
        for stream, offset in committed.items():
            if self._done.get(stream) == offset:
                continue
            try:
                self._ask(partial(self._tell, stream, offset))
            except Error as error:
                if strict or not is_passing(error):
                    raise
                _log.warning("stream %s: not released up to %d yet: %s", stream, offset.next - 1, error)
            else:
                self._done[stream] = offset

    def _tell(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        server = self._options.read.server
        info = connection.request(StreamInfoRequest(stream), timeout=server.request_timeout, prefix=server.api)
        check_release(info, self._release)
        if time_ns(info.created) != committed.created_ns:
            _log.warning("stream %s was deleted and made again; nothing of the new one is released", stream)
        elif self._release.mode is CommitMode.CONSUMER:
            self._follow(stream, committed, connection)
        else:
            for request in purges(stream, self._options.read.subjects, committed):
                gone = connection.request(request, timeout=server.request_timeout, prefix=server.api)
                _log.info("stream %s: purged %d messages before %d", stream, gone, committed.next)

    def _follow(self, stream: str, committed: StreamOffset, connection: Connection) -> None:
        """Set the follower's ack floor, never back; make it if it is not there."""
        server, name = self._options.read.server, self._release.consumer
        if self._follower(stream, connection).ack_floor.stream_seq + 1 >= committed.next:
            return
        request = ConsumerResetRequest(stream, name, seq=committed.next)
        connection.request(request, timeout=server.request_timeout, prefix=server.api)
        _log.info("stream %s: consumer %s follows up to %d", stream, name, committed.next - 1)

    def _follower(self, stream: str, connection: Connection) -> ConsumerInfo:
        server, name = self._options.read.server, self._release.consumer
        check_version(connection.server_info.version, name)
        config = follower_config(name, self._options.read.subjects)
        try:
            request = ConsumerInfoRequest(stream, name)
            info = connection.request(request, timeout=server.request_timeout, prefix=server.api)
        except ConsumerNotFoundError:
            if stream in self._followed:
                _log.warning(
                    "stream %s: consumer %s was deleted and is made again; an interest stream may have dropped what "
                    "was published in between",
                    stream,
                    name,
                )
            create = ConsumerCreateRequest(stream, config)
            info = connection.request(create, timeout=server.request_timeout, prefix=server.api)
        else:
            check_follower(info.config, config, stream)
        self._followed.add(stream)
        return info

    def _ask(self, ask: Callable[[Connection], object]) -> None:
        asking(self._options, ask, self._options.read.retry_timeout)


def check_version(version: str, name: str) -> None:
    """See that a server can move the follower. Raises ConfigError."""
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdecimal())
    if numbers < _RESET_SINCE:
        raise ConfigError(
            f"option commitMode = consumer: consumer {name} cannot be moved by a server of version {version}; that "
            f"needs {'.'.join(map(str, _RESET_SINCE))} or newer"
        )
