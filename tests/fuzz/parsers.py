"""Every small parser of text from outside, with good texts to begin with and the errors that it may raise."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from jetspark.bulk.columns import parse_ack_subjects
from jetspark.bulk.direct_get_replies import read_replies
from jetspark.engine.ranges import InterruptedReadError
from jetspark.errors import Error
from jetspark.jetstream import ConsumerConfig, StreamConfig, parse_ack_subject
from jetspark.jetstream import api as requests
from jetspark.jetstream.api.streams import StreamSubjectsRequest
from jetspark.jetstream.codec import encode
from jetspark.jetstream.direct_get import DirectBatchEnd, DirectLastRequest, read_batch_reply, read_direct_message
from jetspark.jetstream.errors.api import WrongLastSequenceError
from jetspark.jetstream.publish import plain_ack_prefix, read_pub_ack
from jetspark.jetstream.status import classify
from jetspark.jetstream.times import parse_go_duration, parse_rfc3339
from jetspark.wire.addresses import parse_address
from jetspark.wire.frames import FrameLimits, Info, parse_control, parse_message_line
from jetspark.wire.headers import encode_header_block, parse_header_block, parse_status
from jetspark.wire.session import parse_err, parse_info
from jetspark.wire.subjects import check_filter_subject, check_publish_subject
from jetspark.wire.untrusted import MAX_UINT64, decode_json, parse_number
from jetspark.wire.vector import decode

__all__ = ["PARSERS", "Disagreement", "TextParser"]


class Disagreement(Exception):  # noqa: N818 - it is not an error of the program
    """Two readers of one text decide differently."""


@dataclass(frozen=True)
class TextParser:
    """A parser.

    Attributes
    ----------
    read
        Reads a text, and uses the result as a program would.
    seeds
        Good texts.
    errors
        Errors that it may raise.
    share
        Its share of the mutations, less for a slow one.
    """

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = (Error,)
    share: float = 1.0


def _as_json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


_STREAM_CONFIG: Final[dict[str, Any]] = {
    "name": "ORDERS", "subjects": ["orders.>"], "retention": "limits", "max_consumers": -1, "max_msgs": -1,
    "max_bytes": -1, "max_age": 3_600_000_000_000, "max_msgs_per_subject": 1, "max_msg_size": -1, "discard": "old",
    "storage": "file", "num_replicas": 3, "duplicate_window": 120_000_000_000, "compression": "none",
    "allow_direct": True, "metadata": {"_nats.level": "1"}, "placement": {"cluster": "C", "tags": ["a"]},
    "republish": {"src": ">", "dest": "x.>"}, "sources": [{"name": "A", "opt_start_time": "2026-01-02T03:04:05Z"}],
    "mirror": None, "consumer_limits": {"inactive_threshold": 1}, "subject_transform": {"src": "a", "dest": "b"},
}  # fmt: skip
_STREAM: Final = _as_json(
    type="io.nats.jetstream.api.v1.stream_info_response", total=1, offset=0, limit=256, config=_STREAM_CONFIG,
    created="2026-01-02T03:04:05.123456789Z", ts="2026-01-02T03:04:05.1Z", did_create=True, brand_new={"x": [1, None]},
    state={"messages": 7, "bytes": 700, "first_seq": 1, "first_ts": "2026-01-02T03:04:05Z", "last_seq": 9,
           "last_ts": "2026-01-02T03:04:05.5+01:00", "num_deleted": 2, "deleted": [2, 3], "num_subjects": 1,
           "subjects": {"orders.a": 7}, "lost": {"msgs": [1], "bytes": 5}, "consumer_count": 1},
    cluster={"name": "C", "leader": "n1", "leader_since": "2026-01-02T03:04:05Z",
             "replicas": [{"name": "n2", "current": True, "active": 1_000, "lag": 3, "offline": False}]},
)  # fmt: skip
_CONSUMER: Final = _as_json(
    type="io.nats.jetstream.api.v1.consumer_info_response", stream_name="ORDERS", name="worker",
    created="2026-01-02T03:04:06Z", ts="2026-01-02T03:04:07Z", num_ack_pending=1, num_redelivered=0, num_waiting=2,
    num_pending=5, delivered={"consumer_seq": 3, "stream_seq": 4, "last_active": "2026-01-02T03:04:07Z"},
    ack_floor={"consumer_seq": 2, "stream_seq": 3}, push_bound=False, paused=True, pause_remaining=1_000,
    config={"durable_name": "worker", "name": "worker", "deliver_policy": "by_start_time", "ack_policy": "explicit",
            "opt_start_time": "2026-01-02T03:04:05Z", "ack_wait": 30_000_000_000, "max_deliver": -1, "backoff": [1, 2],
            "filter_subjects": ["a", "b"], "replay_policy": "instant", "max_ack_pending": 1000, "metadata": {"a": "b"}},
    priority_groups=[{"group": "g", "pinned_client_id": "p", "pinned_ts": "2026-01-02T03:04:07Z"}],
)  # fmt: skip
_ERROR: Final = _as_json(
    type="x", error={"code": 404, "err_code": 10059, "description": "stream not found: wrong last sequence: 17"}
)
_DONE: Final = _as_json(type="io.nats.jetstream.api.v1.stream_delete_response", success=True, purged=7)
_NAMES: Final = _as_json(total=3, offset=0, limit=1024, streams=["A", "B"], consumers=["a", "b"], missing=["C"])
_LIST: Final = (
    b'{"total":1,"offset":0,"limit":256,"streams":[' + _STREAM + b'],"consumers":[' + _CONSUMER + b'],"missing":[]}'
)
_STORED: Final = _as_json(
    message={"subject": "orders.a", "seq": 7, "time": "2026-01-02T03:04:05Z", "data": "eA==",
             "hdrs": "TkFUUy8xLjANCkE6IGINCg0K"},
)  # fmt: skip
_ACCOUNT: Final = _as_json(
    memory=0, storage=700, streams=1, consumers=1, domain="hub", api={"total": 5, "errors": 1, "level": 2},
    limits={"max_memory": -1, "max_storage": -1, "max_streams": -1, "max_consumers": -1}, tiers={"R3": {"memory": 1}},
)  # fmt: skip
_PUB_ACKS: Final = (
    b'{"stream":"ORDERS", "seq":17}',
    b'{"stream":"ORDERS","seq":17,"duplicate":true,"domain":"hub"}',
    b'{"stream":"ORDERS","seq":17,"batch":"b","count":3,"val":"5"}',
    _ERROR,
    b"-ERR 'something'",
)
_INFO: Final = _as_json(
    server_id="ID", server_name="n1", version="2.15.0", proto=1, host="0.0.0.0", port=4222, headers=True,
    max_payload=1 << 20, jetstream=True, client_id=7, client_ip="127.0.0.1", auth_required=True, tls_required=False,
    nonce="abc", connect_urls=["127.0.0.1:4222", "[::1]:4223"], ldm=False, cluster="C", domain="hub", xkey="X",
)  # fmt: skip
_ACKS: Final = (
    b"$JS.ACK.ORDERS.worker.1.17.3.1767323045000000000.4",
    b"$JS.ACK._.hash.ORDERS.worker.1.17.3.1767323045000000000.4",
    b"$JS.ACK.hub.hash.ORDERS.worker.1.17.3.1767323045000000000.4.Zx81",
)
_LINES: Final = (
    b"MSG orders.a 7 5", b"MSG orders.a 7 $JS.ACK.S.c.1.2.3.4.5 5", b"HMSG a 1 12 17", b"HMSG a 1 r 12 17", b"PING",
    b"PONG", b"+OK", b"-ERR 'Authorization Violation'", b'INFO {"a":1}', b"MSG a 1  5",
)  # fmt: skip
_BLOCKS: Final = (
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 17\r\nNats-Last-Stream: 4\r\n\r\n",
    b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 300\r\n\r\n",
    b"NATS/1.0 503\r\nNats-Subject: a.b\r\n\r\n",
    b"NATS/1.0\r\nA: b\r\nA: c\r\nB:\t\xc3\xa4 \r\n\r\n",
)
_PLACE: Final = b"Nats-Stream: S\r\nNats-Subject: orders.a\r\nNats-Sequence: 7\r\n"
_DIRECT: Final = (
    b"NATS/1.0\r\n"
    + _PLACE
    + b"Nats-Time-Stamp: 2026-01-02T03:04:05.123456789Z\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 6\r\n\r\n",
    b"NATS/1.0\r\nA: b\r\n"
    + _PLACE
    + b"Nats-Time-Stamp: 2026-01-02T03:04:05Z\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 0\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 7\r\nNats-UpTo-Sequence: 9\r\n\r\n",
    b"NATS/1.0 404 Message Not Found\r\n\r\n",
)
_LAST: Final = DirectLastRequest("S", "orders.a")
_LIMITS: Final = FrameLimits()


def _reply(request: requests.Request[object]) -> Callable[[bytes], object]:
    """Read a reply, and write and show what was read."""

    def read(payload: bytes) -> object:
        found = request.read(payload)
        config = getattr(found, "config", None)
        if config is not None:
            encode(config)
        return found

    return read


def _pub_ack(payload: bytes) -> object:
    prefix = plain_ack_prefix(payload)
    ack = read_pub_ack(payload)
    if prefix is not None and not payload.startswith(prefix):
        raise Disagreement("the prefix of an acknowledgement is not its prefix")
    return ack


def _error(payload: bytes) -> object:
    return WrongLastSequenceError(400, 10071, payload.decode("utf-8", "replace")).last_sequence


def _ack_subject(subject: bytes) -> object:
    try:
        scalar = parse_ack_subject(subject.decode("utf-8", "replace"))
        found = (scalar.stream_sequence, scalar.consumer_sequence, scalar.timestamp_ns)
        _ = scalar.timestamp
        wanted = found if max(found) < 2**63 else None
    except Error:
        wanted = None
    if not subject or any(byte in b" \r\n" for byte in subject):
        return wanted
    lines = decode(pa.py_buffer(b"MSG a 1 %b 0\r\n\r\n" % subject)).lines
    try:
        acks = parse_ack_subjects(lines)
        columns = (acks.sequence[0], acks.consumer_sequence[0], acks.timestamp_ns[0])
        vector = tuple(int(number) for number in columns)
    except Error:
        vector = None
    if vector != wanted:
        raise Disagreement(f"the parser reads {wanted}, the columns {vector}")
    return wanted


def _line(line: bytes) -> object:
    return parse_message_line(line, _LIMITS) if line.startswith((b"MSG ", b"HMSG ")) else parse_control(line)


def _err(line: bytes) -> object:
    return str(parse_err(line.decode("utf-8", "replace"), "here"))


def _block(block: bytes) -> object:
    status = parse_status(block)
    if status is not None:
        if not 0 <= status.code <= 999:
            raise Disagreement(f"a status of {status.code}")
        classify(status.code, status.description).make_error(status.code, status.description, where="here")
    headers = parse_header_block(block)
    encode_header_block(headers)
    return headers.to_dict()


def _direct(block: bytes) -> object:
    """Read a reply to a direct get by both readers of batches, and by that of one message."""
    status, headers = parse_status(block), parse_header_block(block)
    with suppress(Error):
        read_direct_message(_LAST, status, headers, b"x" if status is None else b"")
    payload = b"" if status is not None else b"x"
    scalar: object
    try:
        one = read_batch_reply(status, headers, payload, "here")
    except Error as error:
        scalar = "refused" if not isinstance(error, InterruptedReadError) else "interrupted"
    else:
        if isinstance(one, DirectBatchEnd):
            scalar = one
        else:
            _ = one.timestamp
            numbered = one.num_pending is not None and one.last_sequence is not None
            scalar = (one.sequence, one.timestamp_ns, one.subject, one.num_pending) if numbered else "refused"
    line = b"HMSG a 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(payload), block, payload)
    vector: object
    try:
        run, end = read_replies(decode(pa.py_buffer(line)), "S", "here")
    except Error:
        vector = "refused"
    else:
        vector = end
        if end is None:
            subject = run.subject[0].as_py().decode("utf-8", "surrogateescape")
            vector = (int(run.sequence[0]), int(run.timestamp_ns[0]), subject, run.pending)
    if vector != scalar and block:
        raise Disagreement(f"the parser reads {scalar}, the columns {vector}")
    return scalar


def _number(text: bytes) -> object:
    found = parse_number(text)
    plain = 0 < len(text) <= 20 and all(48 <= byte <= 57 for byte in text)
    wanted = int(text) if plain and int(text) <= MAX_UINT64 else None
    if found != wanted:
        raise Disagreement(f"{found} instead of {wanted}")
    return found


def _subject(text: bytes) -> object:
    for check in (check_publish_subject, check_filter_subject):
        try:
            check(text.decode("utf-8", "surrogateescape"))
        except Error:
            continue
    return None


_any: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)

PARSERS: Final[dict[str, TextParser]] = {
    "INFO": TextParser(lambda text: parse_info(Info(text)), (_INFO,)),
    "-ERR": TextParser(_err, (b'Permissions Violation for Publish to "a.b"', b"Stale Connection", b"Slow Consumer")),
    "line": TextParser(_line, _LINES),
    "header block": TextParser(_block, _BLOCKS),
    "ack subject": TextParser(_ack_subject, _ACKS, share=0.05),
    "publish acknowledgement": TextParser(_pub_ack, _PUB_ACKS),
    "direct get": TextParser(_direct, _DIRECT, share=0.03),
    "stream info": TextParser(_reply(requests.StreamInfoRequest("ORDERS")), (_STREAM, _ERROR)),
    "stream create": TextParser(_reply(requests.StreamCreateRequest(StreamConfig(name="ORDERS"))), (_STREAM, _ERROR)),
    "stream subjects": TextParser(_reply(StreamSubjectsRequest("ORDERS")), (_STREAM, _ERROR)),
    "stream purge": TextParser(_reply(requests.StreamPurgeRequest("ORDERS")), (_DONE, _ERROR)),
    "stream delete": TextParser(_reply(requests.StreamDeleteRequest("ORDERS")), (_DONE, _ERROR)),
    "stream names": TextParser(_reply(requests.StreamNamesRequest()), (_NAMES, _ERROR)),
    "stream list": TextParser(_reply(requests.StreamListRequest()), (_LIST,), share=0.2),
    "consumer info": TextParser(_reply(requests.ConsumerInfoRequest("ORDERS", "worker")), (_CONSUMER, _ERROR)),
    "consumer create": TextParser(
        _reply(requests.ConsumerCreateRequest("ORDERS", ConsumerConfig(name="worker"))), (_CONSUMER, _ERROR)
    ),
    "consumer delete": TextParser(_reply(requests.ConsumerDeleteRequest("ORDERS", "worker")), (_DONE, _ERROR)),
    "consumer names": TextParser(_reply(requests.ConsumerNamesRequest("ORDERS")), (_NAMES, _ERROR)),
    "consumer list": TextParser(_reply(requests.ConsumerListRequest("ORDERS")), (_LIST,), share=0.2),
    "message": TextParser(_reply(requests.MessageGetRequest("ORDERS", sequence=7)), (_STORED, _ERROR)),
    "account": TextParser(_reply(requests.AccountInfoRequest()), (_ACCOUNT, _ERROR)),
    "error text": TextParser(_error, (b"wrong last sequence: 17",)),
    "server address": TextParser(
        lambda text: parse_address(text.decode("utf-8", "surrogateescape")),
        (b"nats://user:pass@host:4222", b"[::1]:4222", b"tls://10.0.0.1"),
    ),
    "subject": TextParser(_subject, (b"orders.a", b"orders.*.>", b"$JS.API.>")),
    "number": TextParser(_number, (b"17", b"18446744073709551615")),
    "time": TextParser(
        lambda text: parse_rfc3339(text.decode("utf-8", "replace")),
        (b"2026-01-02T03:04:05.123456789Z", b"2026-01-02 03:04:05.9 +0000 UTC", b"2026-01-02T03:04:05-14:00"),
        (ValueError,),
    ),
    "duration": TextParser(
        lambda text: parse_go_duration(text.decode("utf-8", "replace")), (b"1h30m", b"-1.5s", b"250ms"), (ValueError,)
    ),
    "JSON": TextParser(lambda text: decode_json(_any, text), (_STREAM, _INFO, b"[1,2]"), (msgspec.DecodeError,)),
}
