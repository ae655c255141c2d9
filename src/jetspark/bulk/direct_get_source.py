"""Reads a range by batched direct get (ADR-31), without a consumer.

A work-queue stream refuses a second consumer for the same messages, and on an interest stream another consumer changes
which messages are kept. Direct get reads the store without a consumer. One request returns many messages and ends with
`204 EOB`, or with `404` if there are no more; the next request starts after the last sequence.

Each message names the one before it (`direct_get_replies` reads that), so a lost message breaks the chain; a lost end
appears as silence.

Any replica may answer, and one that lags behind ends early. So the end of a range counts only if its last sequence was
seen, or if the stream's leader has nothing more in the range.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.bulk.consumer_source import TARGET_BYTES
from jetspark.bulk.direct_get_replies import DirectMessages, read_replies
from jetspark.bulk.leader_queries import next_matching_sequence
from jetspark.bulk.range_source import ReadTarget
from jetspark.engine.ranges import InterruptedReadError, RangeProgress
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.direct_get import DirectBatchEnd, DirectBatchRequest, DirectMultiLastRequest
from jetspark.jetstream.errors import ConfigError, InvalidReplyError, RequestTimeoutError
from jetspark.jetstream.names import subject_matches
from jetspark.jetstream.subject_filters import covers, intersection
from jetspark.wire.reply_tokens import new_tokens

__all__ = ["DirectGetSource", "chain_length", "check_direct", "check_increasing", "request_many"]

_MAX_BATCH: Final = 1_000_000


def check_direct(config: StreamConfig, subjects: Sequence[str]) -> None:
    """Check that a stream can be read by direct get.

    Raises
    ------
    ConfigError
        The stream does not set `allow_direct`, or one filter covers another.
    """
    if not config.allow_direct:
        retention = "" if config.retention is None else f" (retention {config.retention.value})"
        raise ConfigError(
            f"stream {config.name!r}{retention} does not allow direct get: set allow_direct "
            f"(nats stream edit {config.name} --allow-direct); if the stream may have another consumer, scan takes "
            "read_method='consumer' (Spark has no such option)"
        )
    for wide, narrow in permutations(subjects, 2):
        if covers(wide, narrow):  # the server refuses that for a consumer, too (10138)
            raise ConfigError(f"subjects {wide!r} and {narrow!r} overlap; leave out the narrower one")


class DirectGetSource:
    """Reads the range by one request after the other; see `jetspark.bulk.range_source.RangeSource`."""

    name: Final = ""

    def __init__(self, target: ReadTarget) -> None:
        self._target = target
        self._connection = target.connection
        # A request takes one filter; several are applied here, so messages that match none are transferred, too.
        self._filter = target.subjects[0] if len(target.subjects) == 1 else None
        self._inbox = target.connection.new_inbox()
        self._next_token = new_tokens()
        self._sid: int | None = None
        self._start = 1
        self._where = f"direct get from stream {target.stream!r}"

    def open(self, progress: RangeProgress) -> None:
        """Subscribe to the replies."""
        self._start = progress.next_sequence
        self._sid = self._connection.subscribe(f"{self._inbox}.*", time.monotonic() + self._target.limits.timeout)

    def close(self) -> None:
        """End the subscription."""
        if self._sid is not None:
            self._connection.unsubscribe(self._sid)

    def count(self, end: int) -> int:
        """Count the messages before `end` that the server has now and the filters match.

        It is too low by the messages that others publish between the two requests. If filters overlap, the largest
        count of one filter is returned.
        """
        subjects = self._target.subjects
        counts = [self._count_from(self._start, each) - self._count_from(end, each) for each in subjects or (None,)]
        meeting = any(intersection(one, other) is not None for one, other in combinations(subjects, 2))
        return max(0, *counts) if meeting else sum(max(count, 0) for count in counts)

    def _count_from(self, sequence: int, subject: str | None) -> int:
        """Return the number of messages from a sequence on."""
        found = 0
        for reply in self._request(
            DirectBatchRequest(self._target.stream, 1, sequence=sequence, next_by_subject=subject)
        ):
            if isinstance(reply, DirectMessages):
                found = reply.pending + len(reply)
        return found

    def read_messages(self, progress: RangeProgress) -> Iterator[DirectMessages]:
        """Yield messages until the range is read.

        Raises
        ------
        InterruptedReadError
            A message is missing, or the answer ended before the end of the range.
        RequestTimeoutError
            The answer stopped.
        """
        while not progress.done:
            batch = min(progress.end - progress.next_sequence, _MAX_BATCH)
            request = DirectBatchRequest(
                self._target.stream,
                batch,
                sequence=progress.next_sequence,
                next_by_subject=self._filter,
                max_bytes=self._target.limits.max_bytes_in_flight,
            )
            last = 0
            for reply in self._request(request):
                if isinstance(reply, DirectMessages):
                    check_increasing(reply, max(last + 1, request.sequence or 1), self._where)
                    whole = chain_length(reply, last)
                    last = self._record_read(reply, whole, progress, last)
                    chosen = self._apply_filters(reply, whole)
                    if len(chosen):
                        yield chosen
                    if progress.next_sequence >= progress.end:
                        break
                    if whole < len(reply):
                        raise InterruptedReadError(f"{self._where}: a message after sequence {last} is missing")
                else:
                    self._check_end(reply, last, progress)

    def _record_read(self, run: DirectMessages, whole: int, progress: RangeProgress, last: int) -> int:
        if not whole:
            return last
        last = int(run.sequence[whole - 1])
        progress.advance_to(last)
        return last

    def _apply_filters(self, run: DirectMessages, whole: int) -> DirectMessages:
        subjects = self._target.subjects
        if whole == len(run) and not subjects:
            return run
        chosen = np.arange(len(run)) < whole
        if subjects:
            each = run.subject.dictionary_encode()
            wanted = [
                any(subject_matches(pattern, subject.decode("utf-8", "replace")) for pattern in subjects)
                for subject in each.dictionary.to_pylist()
            ]
            if self._filter is not None and not all(wanted):
                raise InvalidReplyError(f"{self._where}: a message of a subject came that was not asked for")
            chosen &= np.array(wanted, np.bool_)[np.asarray(each.indices)]
        return run if chosen.all() else run.select(chosen)

    def _check_end(self, end: DirectBatchEnd, last: int, progress: RangeProgress) -> None:
        """Check at the end of a batch that it is complete, and whether more messages follow."""
        if end.found and end.last_sequence != last:
            raise InterruptedReadError(
                f"{self._where}: the batch ends at sequence {end.last_sequence}, but the last message is {last}"
            )
        if not end.found and last:
            raise InterruptedReadError(f"{self._where}: the batch was cut off after sequence {last}")
        if end.num_pending:
            if not last:
                raise InterruptedReadError(
                    f"{self._where}: a batch without messages says that {end.num_pending} of them follow"
                )
            return
        following = next_matching_sequence(self._target, progress.next_sequence)
        if following is not None and following < progress.end:
            raise InterruptedReadError(
                f"{self._where}: the server that answered does not have sequence {following} yet"
            )
        progress.finish()

    def _request(self, request: DirectBatchRequest) -> Iterator[DirectMessages | DirectBatchEnd]:
        assert self._sid is not None
        reply = f"{self._inbox}.{self._next_token().decode()}"
        return request_many(self._target, request, reply, self._sid, self._where)


def request_many(
    target: ReadTarget, request: DirectBatchRequest | DirectMultiLastRequest, reply: str, sid: int, where: str
) -> Iterator[DirectMessages | DirectBatchEnd]:
    """Send a request whose replies come to a subject of subscription `sid`; yield them, the end as the last one.

    Messages on other subjects of the subscription are dropped: late replies to earlier requests, or forged ones.
    """
    deadline = time.monotonic() + target.limits.timeout
    target.connection.publish(request.subject(target.prefix), request.payload(), reply=reply, deadline=deadline)
    ours_only = pa.scalar(reply.encode(), pa.binary())
    target_bytes = min(TARGET_BYTES, target.limits.max_batch_bytes or TARGET_BYTES)
    while True:
        table = target.connection.read(deadline, target_bytes=target_bytes)
        if table is not None:
            ours = table.lines.sid == sid
            answers = ours & np.asarray(pc.equal(table.lines.subjects(), ours_only))
            target.connection.unmatched_replies += int(np.count_nonzero(ours & ~answers))
            table = table if answers.all() else table.select(answers)
        if table is None or not len(table):
            if time.monotonic() >= deadline:  # also while other messages come
                raise RequestTimeoutError(f"{where}: no further reply within {target.limits.timeout:g} s")
            continue
        run, end = read_replies(table, target.stream, where)
        if len(run):
            yield run
            deadline = time.monotonic() + target.limits.timeout  # after the yield: the caller's time is no silence
        if end is not None:
            yield end
            return


def check_increasing(run: DirectMessages, first: int, where: str) -> None:
    """Check that the sequences increase, and begin at or after `first`. Raises InvalidReplyError."""
    if int(run.sequence[0]) < first or (np.diff(run.sequence) <= 0).any():
        raise InvalidReplyError(
            f"{where}: the sequences go back: after {first - 1}, the server has sent {run.sequence[:20].tolist()}"
        )


def chain_length(run: DirectMessages, last: int) -> int:
    """Return how many messages follow each other without a gap."""
    expected = np.empty(len(run), np.int64)
    expected[0] = last
    expected[1:] = run.sequence[:-1]
    follows = run.previous_sequence == expected
    return len(run) if follows.all() else int(np.argmin(follows))
