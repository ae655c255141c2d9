"""The task ledger: the progress of each task of a streaming query, one record in JetStream per query and partition.

A stream recognises a repeated message id only within its duplicate window. If a query was down for longer, a repeated
micro-batch would store its rows twice. The ledger prevents that. A task first reads its record and writes that it has
begun. When all its rows are stored, it writes that it is done, with a digest of the ids of each record batch. If an
earlier run has begun, its record shows from which time its rows may be stored, and `unstored` looks for them. If the
earlier run was done, the digests show which batches are stored.

Each record is written with the sequence that it replaces, so that two attempts of one task cannot overwrite each other
unnoticed. A record of a later micro-batch means that this task's batch is over. Spark has given up such an attempt. It
ends with an error before its first row.

Every record has a time to live, much longer than a query is ever down. A running query writes its records again, so
only the records of ended queries expire.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from jetspark.jetstream import header_names as names
from jetspark.jetstream.api import MessageGetRequest, Request, StreamCreateRequest, StreamInfoRequest
from jetspark.jetstream.config import DiscardPolicy, PersistMode, RetentionPolicy, StorageType, StreamConfig
from jetspark.jetstream.errors import (
    APIError,
    ConfigError,
    Error,
    MessageNotFoundError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetspark.jetstream.names import subject_matches
from jetspark.spark.options.server import ServerOptions
from jetspark.wire.untrusted import decode_json

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["SupersededBatchError", "TaskLedger", "TaskName", "TaskRecord"]

R = TypeVar("R")

_SUBJECTS: Final = "$JETSPARK"
_VERSION: Final = 1
_MAX_DIGESTS: Final = 20_000
_MAX_TRIES: Final = 10
_REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class TaskName:
    """Name of a task: query, micro-batch and partition. A repeated task has the same name.

    Attributes
    ----------
    query
        Id of the query, the same as long as the query has its checkpoint.
    batch, partition
        Numbers of the micro-batch and the partition.
    """

    query: str
    batch: int
    partition: int

    def __str__(self) -> str:
        return f"{self.query}-{self.batch}-{self.partition}"


class SupersededBatchError(Error, RuntimeError):
    """A later micro-batch than that of the task has begun, so the task must not store rows.

    Spark has given the task up, or the query's checkpoint was replaced by an older one.
    """


class _Record(msgspec.Struct):
    version: int
    batch: int
    done: bool = False
    first_attempt_ns: int = 0
    """When the first attempt began; 0 in the first attempt's own record, which has this time itself."""
    batch_digests: list[str] = []
    revision: int = 0
    """Newest revision of the bucket before the first attempt; 0 if the rows are no entries of one."""


_record_decoder: Final = msgspec.json.Decoder(_Record)


class TaskLedger:
    """The stream of the records.

    Parameters
    ----------
    name
        Name of the stream.
    server
        Options of the connection.
    retry_timeout
        Seconds to keep trying while the server cannot be reached.
    retention
        Time to live of a record, in seconds; None for records that do not expire.
    """

    def __init__(self, name: str, server: ServerOptions, retry_timeout: float, retention: float | None = None) -> None:
        self.name = name
        self.server = server
        self.retry_timeout = retry_timeout
        self.retention = retention

    def subject(self, task: TaskName) -> str:
        """Return the subject of a task's record."""
        return f"{_SUBJECTS}.{self.name}.{task.query}.{task.partition}"

    def subjects(self, query: str) -> str:
        """Return the filter for the subjects of all records of a query."""
        return f"{_SUBJECTS}.{self.name}.{query}.>"

    def prepare(self, connection: Connection) -> bool:
        """Check the stream, or create it. Return whether its messages may have a time to live.

        Raises
        ------
        ConfigError
            The stream exists, but does not have the subjects, keeps more than one message of each, or may drop one.
        """
        try:
            config = self._request(connection, StreamInfoRequest(self.name)).config
        except StreamNotFoundError:
            config = self._create(connection)
        wanted = _missing_settings(config)
        if wanted:
            raise ConfigError(
                f"option ledgerStream: stream {self.name} exists, but must have {', '.join(wanted)} to keep the last "
                "record of each task; change it, or name a stream that does not exist: it is then created"
            )
        return bool(config.allow_msg_ttl)

    def _create(self, connection: Connection) -> StreamConfig:
        config = StreamConfig(
            name=self.name,
            description="progress of the tasks of streaming queries",
            subjects=[f"{_SUBJECTS}.{self.name}.>"],
            max_msgs_per_subject=1,
            storage=StorageType.FILE,
            allow_direct=True,
            allow_msg_ttl=True,
            num_replicas=_REPLICAS if connection.server_info.cluster else 1,
        )
        try:
            return self._request(connection, StreamCreateRequest(config)).config
        except APIError:
            if config.num_replicas == 1:
                raise
            config.num_replicas = 1  # the cluster has too few servers
            return self._request(connection, StreamCreateRequest(config)).config

    def _request(self, connection: Connection, request: Request[R]) -> R:
        from jetspark.bulk.retry import request_with_retry

        def asked() -> R:
            return self.server.request(connection, request)

        return request_with_retry(connection, asked, self.retry_timeout)

    def read(self, connection: Connection, subject: str) -> tuple[_Record | None, int, int]:
        """Return the record of a subject, its sequence and its time (ns since 1970); None, 0, 0 without one."""
        try:
            stored = self._request(connection, MessageGetRequest(self.name, last_by_subject=subject))
        except MessageNotFoundError:
            return None, 0, 0
        try:
            record = decode_json(_record_decoder, stored.payload)
        except msgspec.DecodeError as problem:
            raise ConfigError(
                f"stream {self.name}: the message on {subject} is not the record of a task: {problem}"
            ) from None
        return record, stored.sequence, stored.timestamp_ns


def _missing_settings(config: StreamConfig) -> list[str]:
    """Return the settings that the stream lacks to keep the last record of each subject."""
    subject = f"{_SUBJECTS}.{config.name}.>"
    fits = {
        f"subject {subject}": any(subject_matches(each, f"{subject[:-1]}query.0") for each in config.subjects or ()),
        "max_msgs_per_subject 1": config.max_msgs_per_subject == 1,
        "retention limits": config.retention in {None, RetentionPolicy.LIMITS},
        "storage file": config.storage in {None, StorageType.FILE},
        "persist_mode default": config.persist_mode in {None, PersistMode.DEFAULT},
        "no max_age": not config.max_age,
        "acknowledgements (no_ack false)": not config.no_ack,
        "no max_msgs and no max_bytes, or discard new": config.discard is DiscardPolicy.NEW
        or max(config.max_msgs or 0, config.max_bytes or 0) <= 0,
    }
    return [what for what, has in fits.items() if not has]


class TaskRecord:
    """The record of one task.

    Attributes
    ----------
    first_attempt_ns
        When an earlier run of the task began, nanoseconds since 1970; None if there was none.
    batch_digests
        Digests of the record batches of an earlier run, if it was done.
    revision
        Newest revision of the bucket before the first run; see `_Record`.
    """

    def __init__(self, ledger: TaskLedger, task: TaskName, revision: int = 0) -> None:
        self._ledger = ledger
        self._task = task
        self._subject = ledger.subject(task)
        self._sequence = 0
        self.first_attempt_ns: int | None = None
        self.batch_digests: list[str] = []
        self.revision = revision

    def begin(self, connection: Connection) -> None:
        """Find out whether the task ran before, and record that it runs.

        Raises
        ------
        SupersededBatchError
            A later micro-batch of the query has begun.
        """
        record = self._read(connection)
        if record is None or not record.done:  # the record of a finished run is kept
            self._write(connection, self._record())

    def finish(self, connection: Connection, batch_digests: list[str]) -> None:
        """Record that all rows are stored. Raises SupersededBatchError as `begin` does."""
        record = self._read(connection)  # it also has the time of the first attempt, by the server's clock
        batch_digests = batch_digests if len(batch_digests) <= _MAX_DIGESTS else []
        if record is not None and record.done and record.batch_digests == batch_digests:
            return
        self._write(connection, self._record(batch_digests, done=True))

    def _record(self, batch_digests: list[str] | None = None, *, done: bool = False) -> _Record:
        first = self.first_attempt_ns or 0
        return _Record(_VERSION, self._task.batch, done, first, batch_digests or [], self.revision)

    def _read(self, connection: Connection) -> _Record | None:
        """Return the record of an earlier run of this task; None if there is none."""
        record, self._sequence, stored_ns = self._ledger.read(connection, self._subject)
        if record is None or record.batch < self._task.batch:
            return None
        if record.batch > self._task.batch:
            raise SupersededBatchError(
                f"micro-batch {self._task.batch} of query {self._task.query} is over: by stream {self._ledger.name}, "
                f"micro-batch {record.batch} has begun, so this task stores nothing more; this is normal for an "
                "attempt that Spark has given up; if an older checkpoint of the query was restored, purge its records: "
                f"stream {self._ledger.name}, subject {self._ledger.subjects(self._task.query)}"
            )
        self.first_attempt_ns = record.first_attempt_ns or stored_ns
        self.batch_digests = record.batch_digests
        self.revision = record.revision
        return record

    def _write(self, connection: Connection, record: _Record) -> None:
        import pyarrow as pa

        from jetspark.bulk import PublishRefusedError, publish

        payload = msgspec.json.encode(record)
        for _ in range(_MAX_TRIES):
            given = [(names.EXPECTED_LAST_SUBJECT_SEQUENCE, str(self._sequence))]
            if self._ledger.retention is not None:
                given.append((names.TTL, f"{math.ceil(self._ledger.retention)}s"))
            headers = pa.array([given], pa.map_(pa.string(), pa.string()))
            row = pa.record_batch({"data": [payload], "headers": headers})
            try:
                report = publish(
                    connection,
                    row,
                    subject=self._subject,
                    ack_timeout=self._ledger.server.request_timeout,
                    expected_stream=self._ledger.name,
                    retry_timeout=self._ledger.retry_timeout,
                    control_headers="keep",
                )
            except PublishRefusedError as refused:
                if not isinstance(refused.error, WrongLastSequenceError):
                    raise
                there = self._read(connection)
                if there is not None and (there.done or not record.done):
                    return  # our own record, whose answer was lost, or an equal one of another attempt
            else:
                self._sequence = report.last_sequence or 0
                return
        raise ConfigError(
            f"stream {self._ledger.name}: the record on {self._subject} changes all the time; check that no other "
            "program writes there"
        )
