"""Checks before the first row that a stream takes the dead letters, and that a read does not read them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import Request, StreamInfoRequest, StreamNamesRequest
from jetspark.jetstream.errors import ConfigError, Error, StreamNotFoundError
from jetspark.jetstream.names import subject_matches
from jetspark.spark.options import table
from jetspark.spark.options.dead_letters import DeadLetterOptions
from jetspark.spark.options.server import ServerOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["count_dead_letters", "find_dead_letter_stream", "has_stream"]

R = TypeVar("R")

_log: Final = logging.getLogger(__name__)
_MAX_STREAMS: Final = 100
"""Most streams that are looked at to find out where the messages of a read come from."""


def find_dead_letter_stream(
    connection: Connection,
    server: ServerOptions,
    retry_timeout: float,
    options: DeadLetterOptions,
    read_streams: Sequence[str] = (),
    filters: Sequence[str] = (),
) -> DeadLetterOptions:
    """Return the options with the stream that takes the dead letters.

    Parameters
    ----------
    read_streams
        Streams that the job reads.
    filters
        Subject filters of the read; empty for all subjects.

    Raises
    ------
    ConfigError
        No stream takes the subject, or it acknowledges nothing, or the read would read its own dead letters.
    """

    def ask(request: Request[R]) -> R:
        from jetspark.bulk.retry import request_with_retry

        return request_with_retry(connection, lambda: server.request(connection, request), retry_timeout)

    option = f"option {table.DEAD_LETTER_SUBJECT.name}"
    names = ask(StreamNamesRequest(subject_filter=options.subject)).items
    if not names:
        raise ConfigError(
            f"{option}: no stream takes the subject {options.subject}; create one that does, or check the subject, the "
            "domain and the account"
        )
    stream = names[0]
    config = ask(StreamInfoRequest(stream)).config
    unfit = "acknowledges nothing (no_ack)" if config.no_ack else "is sealed" if config.sealed else ""
    if unfit:
        raise ConfigError(f"{option}: stream {stream}, which takes the subject {options.subject}, {unfit}")
    if not filters or any(subject_matches(each, options.subject) for each in filters):
        for read in read_streams:
            if stream in _origins(read, lambda name: ask(StreamInfoRequest(name)).config):
                how = "" if read == stream else f", whose messages come into stream {read},"
                raise ConfigError(
                    f"{option}: stream {stream} takes the subject {options.subject}{how} and the job reads stream "
                    f"{read}, so it would read its own dead letters again; name a subject of another stream, or leave "
                    f"it out by option {table.SUBJECT.name}"
                )
    most = config.max_msg_size or 0
    return replace(options, stream=stream, max_size=most if most > 0 else None)


def count_dead_letters(connection: Connection, server: ServerOptions, options: DeadLetterOptions) -> int:
    """Return the number of messages on the subject of the dead letters; `options` name their stream."""
    info = server.request(connection, StreamInfoRequest(options.stream, subjects_filter=options.subject))
    return (info.state.subjects or {}).get(options.subject, 0)


def has_stream(connection: Connection, server: ServerOptions, subject: str) -> bool:
    """Return whether a stream takes a subject; true if the server does not say."""
    try:
        return bool(server.request(connection, StreamNamesRequest(subject_filter=subject)).items)
    except Error as error:
        _log.warning("subject %s: cannot find out whether a stream takes it: %s", subject, error)
        return True


def _origins(stream: str, config_of: Callable[[str], StreamConfig]) -> set[str]:
    """Return a stream, and the streams of the account from which its messages come."""
    found, left = {stream}, [stream]
    while left and len(found) < _MAX_STREAMS:
        try:
            config = config_of(left.pop())
        except StreamNotFoundError:
            continue  # the read says so itself
        for source in [config.mirror, *(config.sources or ())]:
            if source is not None and source.external is None and source.name not in found:
                found.add(source.name)
                left.append(source.name)
    return found
