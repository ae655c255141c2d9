"""Fetch from a consumer into Arrow record batches, and acknowledge all of them at once.

The pull uses the same engine as the APIs for single messages (`jetspark.engine.pull`); only the messages are columns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Unpack

import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.decoding import message_schema
from jetspark.bulk.pull_reading import LeftMessages, PullReading, Wait, send_acks
from jetspark.bulk.record_batch_iterator import RecordBatchIterator
from jetspark.bulk.retry import call_with_retry
from jetspark.engine.pull import PriorityFields, PullOptions, fetch_options
from jetspark.engine.server_health import is_sign_of_trouble
from jetspark.jetstream import AckPolicy
from jetspark.jetstream.ack import ACK
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import ConsumerUnavailableError, Error, NoRespondersError, RequestTimeoutError
from jetspark.jetstream.errors.hints import CONSUMER_GONE
from jetspark.jetstream.names import API_PREFIX
from jetspark.payload import DecodeOptions, PayloadFormat, RowDecoder
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ConsumerFetch", "fetch"]

_SHORTEST_TIMEOUT: Final = 0.1
"""Seconds for the last try of an acknowledgement."""


@checks_arguments()
def fetch(
    connection: Connection,
    stream: str,
    consumer: str,
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    timeout: float | None = 30.0,
    no_wait: bool = False,
    idle_heartbeat: float | None = None,
    columns: Sequence[str] | None = None,
    decode: PayloadFormat | DecodeOptions | None = None,
    request_timeout: float = 5.0,
    prefix: str = API_PREFIX,
    **priority: Unpack[PriorityFields],
) -> ConsumerFetch:
    """Fetch messages from a pull consumer as Arrow record batches (ADR-37, FET-01 to FET-09).

    Parameters
    ----------
    connection
        From `connect`; only the fetch may use it until it is closed.
    stream, consumer
        Names of the stream and of an existing consumer.
    max_messages, max_bytes
        Most messages, and most bytes as the server counts them; at least one of the two.
    timeout
        Seconds to wait for them; None means no limit.
    no_wait
        Take only messages that are available now.
    idle_heartbeat
        Seconds of silence after which the server sends a heartbeat; the fetch fails if none comes in twice that time.
    columns, decode
        As for `scan`. `ack` acknowledges bad records, too, unless the mode is FAILFAST: then the fetch gives back the
        messages of that batch, and the bad one comes again.
    request_timeout
        Seconds for a request to the server.
    prefix
        Prefix of the API's subjects, see `jetspark.jetstream.names.api_prefix`.
    group, min_pending, min_ack_pending, priority
        Priority group, and the priority within it; see `jetspark.engine.pull.Priority`.

    Returns
    -------
    Fetch
        An iterator of record batches, and a context manager; `ack` acknowledges the returned messages.

    Raises
    ------
    ConfigError
        The options are not valid or contradict each other.
    StatusError, MissedHeartbeatError, DisconnectedError, InvalidAckError, BadSubjectError
        While reading: the pull ended with an error; the batches before it were returned. If no server answers the pull
        (503), the fetch asks whether the consumer exists: NoConsumerResponseError if not. Otherwise it pulls again
        within `timeout`, then ConsumerUnavailableError.
    PayloadError
        While reading: a payload cannot be decoded, and the mode is FAILFAST.
    """
    options = fetch_options(
        max_messages,
        max_bytes=max_bytes,
        timeout=timeout,
        no_wait=no_wait,
        idle_heartbeat=idle_heartbeat,
        **priority,
    )
    options.template(stream, consumer)  # raises if the server would refuse the pull
    schema = scan_schema(columns)
    rows = None if decode is None else RowDecoder.for_columns(decode, schema, where=f"stream {stream!r}")
    wanted = schema if rows is None else message_schema(rows)
    reading = PullReading(connection, stream, consumer, options, wanted, prefix, rows)
    schema = schema if rows is None else rows.schema
    return ConsumerFetch(connection, stream, consumer, reading, schema, request_timeout, prefix)


class ConsumerFetch(RecordBatchIterator):
    """Iterator of record batches; see `fetch`. Messages that are not acknowledged come again after `ack_wait`.

    Its close, or the end of the last reference to it, ends the pull; messages that were received and not returned go
    to the next fetch.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        reading: PullReading,
        schema: pa.Schema,
        request_timeout: float,
        prefix: str,
    ) -> None:
        self._schema = schema
        self._connection = connection
        self._stream, self._consumer = stream, consumer
        self._reading = reading
        self._request_timeout = request_timeout
        self._prefix = prefix
        self._cached_ack_policy: AckPolicy | None = None
        self._batches = reading.run()

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self._reading.received

    @property
    def bad_records(self) -> int:
        """Messages returned so far whose payload could not be decoded, with the parameter `decode`."""
        return self._reading.bad_records

    @property
    def remaining(self) -> PullOptions | None:
        """Options of a pull for the messages that were not returned; None if it has all."""
        return self._reading.remaining

    def read_all(self) -> pa.Table:
        """Return the remaining batches as a table. If it fails, all of its messages go to the next fetch."""
        hold, self._reading.hold = self._reading.hold, True
        try:
            table = super().read_all()
            self._reading.confirm()
        finally:
            self._reading.hold = hold
        return table

    def read_available(self) -> pa.RecordBatch | Wait | None:
        """Return the next batch, or what to wait for; None at the end. It counts as returned after `confirm`."""
        self._reading.hold, self._reading.blocking = True, False
        try:
            return next(self._batches, None)
        finally:
            self._reading.blocking = True

    def leave_messages_to(self, left: LeftMessages) -> None:
        """Give messages that were received and not returned to `left`, and begin with those that it has.

        By default the server gets them back, and delivers them again at once.
        """
        self._reading.left = left

    def confirm(self) -> None:
        """Note that the caller has got the batches of `read_available`."""
        self._reading.confirm()

    def close(self) -> None:
        """End the iteration and give back messages that the caller did not get. May be repeated."""
        super().close()
        self._reading.give_back()

    def release(self) -> None:
        """As `close`, but the next read pulls for the rest."""
        self.close()
        self._batches = self._reading.run()

    def ack(self) -> None:
        """Acknowledge all returned messages that are not acknowledged yet, and wait until the server has confirmed.

        With ack policy `all`, one acknowledgement is sent for all messages; with `none`, nothing is sent.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may be delivered again.
        NoRespondersError
            The consumer does not exist any more.
        ConsumerUnavailableError
            No server has served it within `request_timeout`; the messages may be delivered again.
        """
        if not self._reading.unacked:
            return
        subjects = pa.concat_arrays(self._reading.unacked)
        policy = self._ack_policy()
        if policy is not AckPolicy.NONE:
            if policy is AckPolicy.EXPLICIT and len(subjects) > 1:
                send_acks(self._connection, subjects[:-1], ACK, self._request_timeout)
            # The server processes acknowledgements in order, so the answer to the last one is valid for all.
            self._ack_last(subjects[-1].as_py().decode(), len(subjects))
        self._reading.unacked.clear()

    def _ack_policy(self) -> AckPolicy:
        if self._cached_ack_policy is None:
            request = ConsumerInfoRequest(self._stream, self._consumer)
            info = self._connection.request(request, timeout=self._request_timeout, prefix=self._prefix)
            self._cached_ack_policy = info.config.ack_policy or AckPolicy.NONE
        return self._cached_ack_policy

    def _ack_last(self, subject: str, count: int) -> None:
        deadline = time.monotonic() + self._request_timeout

        def ack() -> None:
            left = max(deadline - time.monotonic(), _SHORTEST_TIMEOUT)
            answer = self._connection.request_message(subject, ACK, left)
            if answer is None:
                self._connection.note_error(RequestTimeoutError("no answer"), self._request_timeout)
                raise RequestTimeoutError(
                    f"{where}: no answer to the acknowledgement of {count} messages within {self._request_timeout:g} s"
                )
            if answer.header:  # 503
                raise self._not_acknowledged(f"{where}: nobody takes the acknowledgement of {count} messages", left)

        where = f"consumer {self._consumer!r} of stream {self._stream!r}"
        call_with_retry(ack, lambda error: isinstance(error, ConsumerUnavailableError), self._request_timeout)

    def _not_acknowledged(self, what: str, timeout: float) -> Error:
        """Return the error for a 503, after a look at the consumer: is it missing, or does JetStream not serve it?"""
        try:
            request = ConsumerInfoRequest(self._stream, self._consumer)
            self._connection.request(request, timeout=timeout, prefix=self._prefix)
        except Error as error:
            if self._connection.closed:
                return error
            if not is_sign_of_trouble(error):
                return NoRespondersError(f"{what} (503): {CONSUMER_GONE}")
        return ConsumerUnavailableError(503, where=what)
